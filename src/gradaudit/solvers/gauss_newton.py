"""Gauss-Newton: from near to exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from gradaudit.solvers.derivative import Derivative, Map
from gradaudit.solvers.lsmr import lsmr

# The linear problem of a step is solved to this part of its right-hand side, unless to less.
RELATIVE = 1e-8
# Parts of a step that are tried: far from the solution a whole one may lead too far.
PARTS = (1.0, 0.25, 0.0625)
# A step that leaves more than this part of the mismatch is the last: near a solution each squares
# the error, and what is left is noise, or what the linear problem does not resolve.
LEAST_GAIN = 0.5


@dataclass(frozen=True, eq=False)
class Fit:
    """Where the steps led; never to a larger mismatch.

    Attributes:
        inputs: As they were given, in shape.
        mismatch: Root mean square of what is left.
        steps: That lowered it.
    """

    inputs: Float[Tensor, "b ..."]
    mismatch: float
    steps: int


def gauss_newton(
    function: Map,
    observed: Float[Tensor, " w"],
    inputs: Float[Tensor, "b ..."],
    *,
    steps: int,
    iterations: int,
    converged: float = 0.0,
    enough: float = 0.0,
    stop: Callable[[], bool] = lambda: False,
) -> Fit:
    r"""Lower :math:`\lVert g - f(x) \rVert`, from a start near a solution.

    A step d minimises :math:`\lVert J d - (g - f(x)) \rVert`, J the derivative of f: by its
    eigenvectors where J is small, else by LSMR, which meets weakly determined directions last, so
    that its last iteration also bounds how far they are followed.

    Args:
        function: f, from inputs to flat values.
        observed: g.
        inputs: Where to begin, in float64.
        steps: The most that are taken.
        iterations: Of LSMR, in each.
        converged: Root mean square of :math:`J^T (J d - g + f(x))` that is as good as none.
        enough: Root mean square mismatch below which there is nothing to gain.
        stop: Asked during iterations; true ends them with what there is.

    Source:
        Nocedal and Wright, Numerical Optimization (2006), section 10.3.

    Example:
        >>> import torch
        >>> start = torch.full((1, 2), 1.5, dtype=torch.float64)
        >>> found = gauss_newton(lambda x: x.flatten() ** 2, torch.tensor([1.0, 4.0]).double(),
        ...                      start, steps=9, iterations=9)
        >>> found.inputs.round(decimals=9)
        tensor([[1., 2.]], dtype=torch.float64)
    """
    inputs = inputs.detach().clone()
    left = observed - function(inputs)
    size, taken = _size(left), 0
    while taken < steps and size > enough and not stop():
        step = _step(Derivative(function, inputs), left, iterations, converged, stop)
        for part in PARTS:
            moved = inputs + part * step.reshape(inputs.shape)
            rest = observed - function(moved)
            if _size(rest) < size:
                break
        else:
            break
        before, size = size, _size(rest)
        inputs, left, taken = moved, rest, taken + 1
        if size > LEAST_GAIN * before:
            break
    return Fit(inputs, size, taken)


def _step(
    derivative: Derivative,
    left: Tensor,
    iterations: int,
    converged: float,
    stop: Callable[[], bool],
) -> Tensor:
    if derivative.small():
        return derivative.decompose().solve(left)
    slope = derivative.adjoint(left[None])
    least = converged * math.sqrt(slope.numel())
    return lsmr(
        derivative.apply,
        derivative.adjoint,
        left[None],
        tolerance=(RELATIVE * slope.norm(dim=1)).clamp(min=least),
        iterations=iterations,
        stop=stop,
    ).solution[0]


def _size(values: Tensor) -> float:
    return float(values.square().mean().sqrt())
