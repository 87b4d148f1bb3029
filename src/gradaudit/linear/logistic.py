"""Logistic regression of many labellings of the same points, a Newton step at a time."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.conjugate import conjugate_gradient
from gradaudit.linear.grams import weighted_grams

# Conjugate gradient steps within a Newton step: the points are whitened, so that the curvature is
# well conditioned, and the next Newton step corrects what this one leaves.
INNER_STEPS = 6


def newton_step(
    points: Float[Tensor, "l d"],
    weights: Float[Tensor, "k d"],
    target: Float[Tensor, "k l"],
    *,
    ridge: float,
    curvature_floor: float,
    judged: Float[Tensor, "k l"] | None = None,
    anchor: Float[Tensor, "k d"] | None = None,
    longest: float = float("inf"),
    exact: bool = False,
) -> Float[Tensor, "k d"]:
    r"""One truncated Newton step of ridge-regularised logistic regression, for every labelling.

    .. math:: \min_w \; -\sum_i j_i [t_i \log \sigma(x_i \cdot w)
        + (1 - t_i) \log \sigma(-x_i \cdot w)] + \tfrac{\rho}{2} \lVert w - w_0 \rVert^2

    Args:
        points: Whitened: :math:`\sum_i x_i x_i^T` about l times the identity.
        weights: w of every labelling so far.
        target: t, between 0 and 1.
        ridge: :math:`\rho`.
        curvature_floor: Smallest curvature a point counts with; keeps the step finite where all
            points are certain.
        anchor: :math:`w_0`, None for zero.
        judged: j, 1 for points that count and 0 for the others; None where all do.
        longest: Limit on a step's norm.
        exact: Whether to solve for the step, rather than take a few conjugate gradient steps
            towards it.

    Example:
        >>> points = torch.tensor([[1.0], [-1.0]])
        >>> step = newton_step(
        ...     points, torch.zeros(1, 1), torch.tensor([[1.0, 0.0]]),
        ...     ridge=0.0, curvature_floor=0.0,
        ... )
        >>> step.tolist()
        [[2.0]]
    """
    chance = torch.sigmoid(weights @ points.T)
    curvature = (chance * (1 - chance)).clamp(min=curvature_floor)
    miss = target - chance
    if judged is not None:
        curvature, miss = curvature * judged, miss * judged
    slope = miss @ points - ridge * (weights if anchor is None else weights - anchor)
    if exact:
        step = torch.empty_like(slope)
        eye = torch.eye(points.shape[1], dtype=points.dtype, device=points.device)
        for which, gram in weighted_grams(points, curvature):
            step[which] = torch.linalg.solve(gram + ridge * eye, slope[which, :, None])[..., 0]
    else:
        step = conjugate_gradient(
            lambda v: (curvature * (v @ points.T)) @ points + ridge * v, slope, steps=INNER_STEPS
        )
    return weights + step / (step.norm(dim=1, keepdim=True) / longest).clamp(min=1)
