"""All that a direction leaves possible: a polytope, its centre, and walks through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.linear.billiard import Walkers
from gradaudit.linear.conjugate import conjugate_gradient
from gradaudit.linear.grams import weighted_grams
from gradaudit.linear.partial import bias_row
from gradaudit.linear.problem import Problem

# Newton steps towards a record that fits, while its sharpness grows; and towards the centre.
# Conjugate gradient steps in each: the constraints are whitened.
SEARCH_STEPS, CENTRE_STEPS, INNER_STEPS = 30, 12, 12
SHARPENING = 1.5
# Walks from each centre; moves of each for every dimension, before it is looked at and while it is.
# With four times as many, errors and their estimates change by a tenth.
WALKS, FIRST_MOVES, MOVES = 2, 2, 6
# Floating-point operations for those that walk at once, who are done or not when the time is up:
# half a second of one core.
WORK_AT_ONCE = 1e10

# Why to stop, or None.
Stopped: TypeAlias = Callable[[], str | None]


class Polytopes:
    r"""What each direction leaves possible, in coordinates in which neurons look alike.

    With A the neurons' weights as unit rows, a record is :math:`V^T x = R^{-1} y` for
    :math:`A = Q R`, so that no combination of neurons is stronger than another; y matters up to its
    scale.

    Args:
        problem: The layer.
        directions: All that are known.
        chosen: Those whose records are wanted.
    """

    def __init__(
        self, problem: Problem, directions: Float[Tensor, "k b"], chosen: Int[Tensor, " c"]
    ) -> None:
        zero, active = (mask[chosen] for mask in problem.pattern(directions))
        weights = problem.activation_map / problem.factors.values
        norms = weights.norm(dim=1)
        used = problem.live & (norms > 0)
        # Signs of pre-activations; zero where the gradient does not tell.
        self._sides = (active.to(weights) - zero.to(weights))[:, used]
        slopes, triangle = torch.linalg.qr(weights[used] / norms[used, None])
        self._slopes, self._triangle = slopes * len(slopes) ** 0.5, triangle / len(slopes) ** 0.5
        # Orthogonal to c: the other directions.
        dual = torch.linalg.solve_triangular(
            self._triangle, directions / problem.factors.values, upper=True, left=False
        )
        self._bias = torch.linalg.solve_triangular(
            self._triangle, bias_row(problem)[None], upper=True, left=False
        )[0]
        common = torch.linalg.svd(dual, full_matrices=True).Vh[len(dual) :].T
        own = torch.nn.functional.normalize(torch.linalg.pinv(dual).T[chosen], dim=1)
        self._space = torch.cat([common.expand(len(own), *common.shape), own[:, :, None]], dim=2)
        self._touch(_projected(self._sides @ self._slopes, self._space))

    def _touch(self, y: Float[Tensor, "c b"]) -> None:
        """Move in the plane that touches the unit sphere of directions at y."""
        self._y = torch.nn.functional.normalize(y, dim=1)
        turned = torch.linalg.qr(self._space.mT @ self._y[:, :, None], mode="complete").Q
        self._tangents = (self._space @ turned)[:, :, 1:]

    @property
    def work(self) -> float:
        """Floating-point operations for one direction's walks."""
        moves = WALKS * (FIRST_MOVES + MOVES) * self._tangents.shape[2]
        # Elementwise passes over the margins cost as much as some dimensions of the product.
        return 2.0 * moves * (self._slopes.numel() + 20 * len(self._slopes))

    def _margins(self, which: Tensor) -> Float[Tensor, "c u"]:
        """Distance of each neuron's boundary, positive on the right side; 1 where it is unknown."""
        sides = self._sides[which]
        return torch.where(sides == 0, 1.0, sides * (self._y[which] @ self._slopes.T))

    def find(self, stopped: Stopped) -> Bool[Tensor, " c"]:
        """Move to a point that is on the right side of every boundary, then to the centre.

        Args:
            stopped: Asked between steps; what it stops is not at the centre.

        Returns:
            Of which directions there is such a point.
        """
        everything = torch.arange(len(self._y), device=self._y.device)
        scale = (self._y @ self._slopes.T).square().mean(1, keepdim=True).sqrt()
        inside = (self._margins(everything) > 0).all(1)
        for step in range(SEARCH_STEPS):
            going = torch.nonzero(~inside)[:, 0]
            if not len(going) or stopped():
                break
            # A smooth count of the wrong sides.
            sharpness = SHARPENING**step / scale[going]
            chance = torch.sigmoid(-self._margins(going) * sharpness)
            force = chance * sharpness
            curvature = chance * (1 - chance) * sharpness.square()
            self._y[going] += self._newton(going, force, curvature)
            inside[going] = (self._margins(going) > 0).all(1)
        within = torch.nonzero(inside)[:, 0]
        for _ in range(CENTRE_STEPS):
            if not len(within) or stopped():
                break
            # The logarithmic barrier's damped Newton step never leaves the polytope.
            margins = self._margins(within)
            move = self._newton(within, 1 / margins, margins**-2)
            slope = self._sides[within] * (move @ self._slopes.T) / margins
            decrement = slope.square().sum(1, keepdim=True).sqrt()
            self._y[within] += move / (1 + decrement)
        inside &= (self._margins(everything) > 0).all(1)
        self._touch(self._y)
        return inside

    def _newton(
        self, which: Tensor, force: Float[Tensor, "c u"], curvature: Float[Tensor, "c u"]
    ) -> Float[Tensor, "c b"]:
        curvature = curvature * self._sides[which].square()
        # Keeps the step finite where few boundaries have a say.
        ridge = torch.finfo(curvature.dtype).eps ** 0.5 * curvature.sum(1, keepdim=True)
        plane = self._tangents[which]
        return conjugate_gradient(
            lambda v: (
                _projected((curvature * (v @ self._slopes.T)) @ self._slopes, plane) + ridge * v
            ),
            _projected((force * self._sides[which]) @ self._slopes, plane),
            steps=INNER_STEPS,
        )

    def walk(
        self, which: Int[Tensor, " c"], generator: torch.Generator, stopped: Stopped
    ) -> tuple[Float[Tensor, "d b"], Float[Tensor, " d"], Bool[Tensor, " d"]]:
        """Mean of V^T x, its variance over all entries, and whether both exist.

        Args:
            which: The directions, in the order in which they are walked.
            generator: Of the walks.
            stopped: Asked between moves.

        Returns:
            Of those that were done before it was stopped, the first of them.
        """
        mean = self._y.new_zeros(len(which), self._y.shape[1])
        variance = torch.zeros_like(mean[:, 0])
        bounded = torch.zeros_like(variance, dtype=torch.bool)
        done = 0
        for some in torch.split(which, max(int(WORK_AT_ONCE / self.work), 1)):
            walked = self._walk(some, generator, stopped)
            if walked is None:
                break
            these = slice(done, done + len(some))
            mean[these], variance[these], bounded[these] = walked
            done += len(some)
        return mean[:done], variance[:done], bounded[:done]

    def _walk(
        self, which: Int[Tensor, " c"], generator: torch.Generator, stopped: Stopped
    ) -> tuple[Float[Tensor, "c b"], Float[Tensor, " c"], Bool[Tensor, " c"]] | None:
        count, size = len(which), self._tangents.shape[2]
        sides, margins = self._sides[which], self._margins(which)
        # Speeds suit the polytope's shape: by the barrier's curvature at its centre.
        shapes = self._tangents[which]
        bounded = torch.ones(count, dtype=torch.bool, device=shapes.device)
        eye = torch.eye(size, dtype=shapes.dtype, device=shapes.device)
        for part, gram in weighted_grams(self._slopes, sides.square() * margins**-2):
            root, failed = torch.linalg.cholesky_ex(shapes[part].mT @ gram @ shapes[part])
            bounded[part] = failed == 0
            root = torch.where(bounded[part, None, None], root, eye)
            shapes[part] = torch.linalg.solve_triangular(root, shapes[part].mT, upper=False).mT
        walkers = Walkers(
            self._y[which].repeat(WALKS, 1),
            margins.repeat(WALKS, 1),
            sides.repeat(WALKS, 1),
            slopes=self._slopes,
            shapes=shapes.repeat(WALKS, 1, 1),
            generator=generator,
        )
        total = self._y.new_zeros(WALKS * count, self._y.shape[1])
        square, weight = torch.zeros_like(total[:, 0]), torch.zeros_like(total[:, 0])
        for move in range((FIRST_MOVES + MOVES) * size):
            if stopped():
                return None
            y, length = walkers.move()
            bounded &= torch.isfinite(length).reshape(WALKS, count).all(0)
            if move < FIRST_MOVES * size:
                continue
            # A patch of the plane is that much larger than the patch of the sphere behind it.
            length = length * y.norm(dim=1) ** -(size + 1.0)
            scales = y @ self._bias
            bounded &= (scales > 0).reshape(WALKS, count).all(0)
            records = torch.linalg.solve_triangular(self._triangle, y.T, upper=True).T
            records = records / scales[:, None]
            total += records * length[:, None]
            square += records.square().sum(1) * length
            weight += length
        weight = weight.reshape(WALKS, count).sum(0)
        mean = total.reshape(WALKS, count, total.shape[1]).sum(0) / weight[:, None]
        variance = square.reshape(WALKS, count).sum(0) / weight - mean.square().sum(1)
        return mean, variance.clamp(min=0), bounded


def _projected(
    vectors: Float[Tensor, "c b"], spaces: Float[Tensor, "c b d"]
) -> Float[Tensor, "c b"]:
    """Onto spaces that are given by orthonormal columns."""
    return (spaces @ (spaces.mT @ vectors[:, :, None]))[:, :, 0]
