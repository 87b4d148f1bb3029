"""From a layer-by-layer solution to the one that fits the gradients of all layers best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.rgap.derivative import Derivative
from gradaudit.rgap.gradient_map import GradientMap
from gradaudit.rgap.lsmr import lsmr

# Steps; each squares the error until rounding is left, and the recursion leaves little to begin
# with.
STEPS = 3
# Iterations of LSMR within a step.
ITERATIONS = 150
CONVERGED = 0.1
# A step that leaves more than this part of the mismatch is the last.
LEAST_GAIN = 0.5


@dataclass(frozen=True, eq=False)
class Refined:
    """Inputs after refinement, never worse than before.

    Attributes:
        inputs: With a leading dimension of records.
        mismatch: Root mean square of the gradient's unexplained part, over its noise.
        steps: That were taken.
    """

    inputs: Float[Tensor, "b ..."]
    mismatch: float
    steps: int


def refine(
    of: GradientMap, inputs: Float[Tensor, "b ..."], stop: Callable[[], bool] = lambda: False
) -> Refined:
    r"""Gauss-Newton on the gradient of all layers, each entry over its noise.

    The recursion uses each layer's gradient once, and lets errors grow on the way to the input. All
    gradients together know the input better. A step d minimises :math:`\lVert J d - r \rVert`, J
    the derivative of the gradient.

    Args:
        of: The map and the observed gradient.
        inputs: Where to begin.
        stop: Asked during iterations; true ends them with what there is.
    """
    inputs = inputs.detach().clone()
    rest = of.mismatch(inputs)
    size, steps = _size(rest), 0
    while steps < STEPS and not stop():
        moved = inputs + _step(of, inputs, rest, stop)
        left = of.mismatch(moved)
        gained = _size(left)
        if not gained < size:
            break
        last = gained > LEAST_GAIN * size
        inputs, rest, size, steps = moved, left, gained, steps + 1
        if last:
            break
    return Refined(inputs, size, steps)


def _step(of: GradientMap, inputs: Tensor, rest: Tensor, stop: Callable[[], bool]) -> Tensor:
    derivative = Derivative(of.whitened, inputs)
    if derivative.small():
        return derivative.decompose().solve(rest).reshape(inputs.shape)
    found = lsmr(
        derivative.apply,
        derivative.adjoint,
        rest[None],
        tolerance=torch.full_like(rest[:1], CONVERGED * math.sqrt(inputs.numel())),
        iterations=ITERATIONS,
        stop=stop,
    )
    return found.solution.reshape(inputs.shape)


def _size(values: Tensor) -> float:
    return float(values.square().mean().sqrt())
