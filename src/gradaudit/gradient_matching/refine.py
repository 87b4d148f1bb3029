"""From near to exact: Gauss-Newton on the gradient itself, without forming its derivative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import jvp, vjp

from gradaudit.budget import Control
from gradaudit.gradient_matching.target import Target

# Outer steps; near the solution each squares the error, and far from it more do not help.
STEPS = 20
# Conjugate-gradient steps for each: enough to resolve most of a few thousand unknowns.
INNER = 300
# The inner problem is solved to this part of its right-hand side.
INNER_TOLERANCE = 1e-8
# First damping, relative to the largest curvature; raised and lowered by this factor.
DAMPING = 1e-6
DAMPING_FACTOR = 100.0
# A step that lowers the residual by less than this part is the last: the inner solver does not
# resolve what is left.
LEAST_GAIN = 0.5


@dataclass(frozen=True, eq=False)
class Refined:
    """Records after refinement; never worse than before.

    Attributes:
        records: Network inputs.
        residual: Relative norm of the gradient's unexplained part.
        steps: Outer steps taken.
    """

    records: Float[Tensor, "b ..."]
    residual: float
    steps: int


def refine(
    target: Target,
    records: Float[Tensor, "b ..."],
    classes: Int[Tensor, " b"],
    *,
    enough: float,
    control: Control,
) -> Refined:
    r"""Levenberg-Marquardt on :math:`\lVert \nabla L(x, y) - g^* \rVert^2` with the labels fixed.

    A step d solves :math:`(J^T J + \lambda I) d = -J^T r` by conjugate gradients, where J, the
    derivative of the gradient in the records, is only ever multiplied with.

    Args:
        target: In float64.
        records: Where to start.
        classes: Their labels.
        enough: Relative residual below which there is nothing to gain.
        control: Stops between steps.

    Source:
        Ours; the method is Levenberg's and Marquardt's, the inner solver that of Hestenes and
        Stiefel (1952) for least squares.
    """
    labels = classes.expand(1, -1)
    norm = torch.stack([g.square().sum() for g in target.gradient.values()]).sum().sqrt()

    def mismatch(inputs: Tensor) -> Tensor:
        found = target.gradients(inputs[None], labels)
        parts = [(found[name][0] - g).flatten() for name, g in target.gradient.items()]
        return torch.cat(parts) / norm

    records = records.detach().clone()
    residual, damping, steps = float(mismatch(records).norm()), DAMPING, 0
    largest: float | None = None
    while steps < STEPS and residual > enough and control.stop_reason() is None:
        control.report("refining", tried=steps, wanted=STEPS)
        slope, curve = _quadratic(mismatch, records)
        largest = largest or float(_largest(curve, slope))
        step = _conjugate_gradients(curve, -slope, damping * largest)
        steps += 1
        moved = records + step
        lowered = float(mismatch(moved).norm())
        if lowered < residual:
            gain = 1 - lowered / residual
            records, residual, damping = moved, lowered, damping / DAMPING_FACTOR
            if gain < LEAST_GAIN:
                break
        else:
            damping *= DAMPING_FACTOR
            if damping > 1:
                break
    return Refined(records, residual, steps)


def _quadratic(
    mismatch: Callable[[Tensor], Tensor], records: Tensor
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """J^T r, and the product with J^T J, at some records."""
    pulled: Any = vjp(mismatch, records)
    value, pull = pulled

    def curve(direction: Tensor) -> Tensor:
        along: Tensor = jvp(mismatch, (records,), (direction,))[1]
        return pull(along)[0]

    return pull(value)[0], curve


def _largest(curve: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """Largest eigenvalue of a positive operator, by a few power iterations."""
    vector = start / start.norm()
    for _ in range(5):
        image = curve(vector)
        vector = image / image.norm()
    return (vector * curve(vector)).sum()


def _conjugate_gradients(curve: Callable[[Tensor], Tensor], right: Tensor, shift: float) -> Tensor:
    """Solve (A + shift) x = right, nearly."""
    solution = torch.zeros_like(right)
    rest, direction = right.clone(), right.clone()
    square = first = rest.square().sum()
    for _ in range(min(INNER, right.numel())):
        image = curve(direction) + shift * direction
        length = square / (direction * image).sum()
        solution = solution + length * direction
        rest = rest - length * image
        before, square = square, rest.square().sum()
        if square <= INNER_TOLERANCE**2 * first:
            break
        direction = rest + square / before * direction
    return solution
