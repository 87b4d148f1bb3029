"""Descent on the unit sphere, many points at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

# Adam's usual constants, and geoopt's.
BETAS = (0.9, 0.999)
EPSILON = 1e-8


@runtime_checkable
class Stepper(Protocol):
    """An optimiser on the sphere with whatever it remembers between steps."""

    def step(
        self, points: Float[Tensor, "k b"], gradients: Float[Tensor, "k b"], rate: float
    ) -> Float[Tensor, "k b"]:
        """Move unit vectors against Euclidean gradients, and return unit vectors."""


class RiemannianAdam:
    r"""Adam on the sphere; each point has its own moments.

    With the gradient's tangent part :math:`g_t` at the point :math:`q_t`, retraction by
    normalising and transport by projecting onto the new tangent space:

    .. math::
        m_t &= \beta_1 m_{t-1} + (1 - \beta_1) g_t, \qquad
        v_t = \beta_2 v_{t-1} + (1 - \beta_2) \lVert g_t \rVert^2 \\
        q_{t+1} &= \operatorname{normalise}\Big(q_t - \eta_t
            \frac{m_t / (1 - \beta_1^t)}{\sqrt{v_t / (1 - \beta_2^t)} + \epsilon}\Big), \qquad
        m_t \leftarrow m_t - (m_t \cdot q_{t+1})\, q_{t+1}

    The second moment is one number a point, not one a coordinate: coordinates of a tangent space
    mean nothing.

    Args:
        betas: :math:`\beta_1, \beta_2`.
        epsilon: :math:`\epsilon`.

    Source:
        Bécigneul and Ganea, "Riemannian Adaptive Optimization Methods" (arXiv 1810.00760), as in
        geoopt's ``RiemannianAdam`` on its ``Sphere``, which SPEAR++ uses.

    Example:
        >>> points = torch.tensor([[0.6, 0.8]])
        >>> optimizer = RiemannianAdam()
        >>> for rate in cosine_rates(0.1, 0.001, 60):
        ...     points = optimizer.step(points, torch.tensor([[-1.0, 0.0]]), rate)
        >>> bool(points[0, 0] > 0.99)
        True
    """

    def __init__(self, *, betas: tuple[float, float] = BETAS, epsilon: float = EPSILON) -> None:
        self._betas = betas
        self._epsilon = epsilon
        self._steps = 0
        self._first: Tensor | None = None
        self._second: Tensor | None = None

    def step(
        self, points: Float[Tensor, "k b"], gradients: Float[Tensor, "k b"], rate: float
    ) -> Float[Tensor, "k b"]:
        r"""One step of length about ``rate`` in radians.

        Args:
            points: Unit vectors, those of the last step's result after the first step.
            gradients: Euclidean gradients there.
            rate: :math:`\eta_t`.
        """
        if self._first is None or self._second is None:
            self._first = torch.zeros_like(points)
            self._second = torch.zeros_like(points[:, :1])
        tangent = tangent_part(points, gradients)
        beta, gamma = self._betas
        self._steps += 1
        self._first = beta * self._first + (1 - beta) * tangent
        squared = tangent.square().sum(1, keepdim=True)
        self._second = gamma * self._second + (1 - gamma) * squared
        mean = self._first / (1 - beta**self._steps)
        spread = (self._second / (1 - gamma**self._steps)).sqrt() + self._epsilon
        points = torch.nn.functional.normalize(points - rate * mean / spread, dim=1)
        self._first = tangent_part(points, self._first)
        return points


class ProjectedGradient:
    r"""Plain descent, projected back: :math:`q \leftarrow \operatorname{normalise}(q - \eta g)`.

    Example:
        >>> point = ProjectedGradient().step(torch.tensor([[0.6, 0.8]]), torch.ones(1, 2), 0.6)
        >>> [round(entry, 6) for entry in point[0].tolist()]
        [0.0, 1.0]
    """

    def step(
        self, points: Float[Tensor, "k b"], gradients: Float[Tensor, "k b"], rate: float
    ) -> Float[Tensor, "k b"]:
        r"""One step.

        Args:
            points: Unit vectors.
            gradients: Euclidean gradients there.
            rate: :math:`\eta`, in units of points by gradients.
        """
        return torch.nn.functional.normalize(points - rate * gradients, dim=1)


def tangent_part(
    points: Float[Tensor, "k b"], vectors: Float[Tensor, "k b"]
) -> Float[Tensor, "k b"]:
    """Each vector without its component along its point.

    Args:
        points: Unit vectors.
        vectors: Any.

    Example:
        >>> tangent_part(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]])).tolist()
        [[0.0, 4.0]]
    """
    return vectors - (points * vectors).sum(1, keepdim=True) * points


def cosine_rates(first: float, last: float, steps: int) -> list[float]:
    """Learning rates that fall from the first to the last along half a cosine.

    Args:
        first: Of step 1.
        last: Of the last step.
        steps: At least 2.

    Example:
        >>> cosine_rates(1.0, 0.0, 3)
        [1.0, 0.5, 0.0]
    """
    middle, half = (first + last) / 2, (first - last) / 2
    return [middle + half * math.cos(math.pi * step / (steps - 1)) for step in range(steps)]


def descend(
    points: Float[Tensor, "k b"],
    gradient: Callable[[Tensor], Tensor],
    optimizer: Stepper,
    rates: Sequence[float],
) -> Float[Tensor, "k b"]:
    """Take one step a learning rate.

    Args:
        points: Unit vectors to begin with.
        gradient: From points to Euclidean gradients.
        optimizer: A fresh one.
        rates: Learning rates in order.

    Example:
        >>> start = torch.tensor([[0.6, 0.8]])
        >>> end = descend(start, lambda q: -q.sign(), ProjectedGradient(), [0.1] * 100)
        >>> bool((end - 0.5**0.5).abs().max() < 1e-3)  # the largest l1 norm
        True
    """
    for rate in rates:
        points = optimizer.step(points, gradient(points), rate)
    return points
