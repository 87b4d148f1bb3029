"""From near to exact: Gauss-Newton on the gradient itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.gradient_matching.target import Target
from gradaudit.solvers.gauss_newton import gauss_newton

# Near the solution each squares the error, and far from it more do not help.
STEPS = 20
# Of LSMR within a step: enough to resolve most of a few thousand unknowns.
ITERATIONS = 300


@dataclass(frozen=True, eq=False)
class Refined:
    """Records after refinement; never worse than before.

    Attributes:
        records: Network inputs.
        residual: Relative norm of the gradient's unexplained part.
        steps: Taken.
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
    r"""Lower :math:`\lVert \nabla L(x, y) - g^* \rVert / \lVert g^* \rVert` with the labels fixed.

    Args:
        target: In float64.
        records: Where to start.
        classes: Their labels.
        enough: Relative residual below which there is nothing to gain.
        control: Stops between steps.
    """
    labels = classes.expand(1, -1)
    flat = torch.cat([g.flatten() for g in target.gradient.values()])
    # Of such a vector the root mean square is the norm relative to the observed one.
    unit = flat.norm() / flat.numel() ** 0.5

    def gradient(inputs: Tensor) -> Tensor:
        found = target.gradients(inputs[None], labels)
        return torch.cat([found[name][0].flatten() for name in target.gradient]) / unit

    control.report("refining on the gradient itself")
    found = gauss_newton(
        gradient,
        flat / unit,
        records,
        steps=STEPS,
        iterations=ITERATIONS,
        enough=enough,
        stop=lambda: control.stop_reason() is not None,
    )
    return Refined(found.inputs, found.mismatch, found.steps)
