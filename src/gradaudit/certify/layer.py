"""What one layer's observed gradient says about proposed records, with no help from the attack."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import poisson
from torch import Tensor

from gradaudit.evidence import Check
from gradaudit.linear.half_space import plausible
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.tolerances import (
    FLOAT64_EPS,
    RESIDUAL_FACTOR,
    SIGN_RELATIVE,
    SIGN_SIGMAS,
    ZERO_ROUNDINGS,
)

# Probability at which more tiny-but-active entries than expected count as a contradiction.
SOFT_MISMATCH_RATE = 1e-6


@dataclass(frozen=True, eq=False)
class LayerEvidence:
    """Measurements; the verdict on them is `gradaudit.certify.verdict`'s.

    Attributes:
        gradients: dL/dZ, solved from the observed gradient and the records alone.
        checks: Of the batch as a whole.
        zeros: Per record, informative entries of its sparse column that vanish.
        judged: Per record, entries whose sign the records predict beyond doubt.
        hard: Of those, active although predicted inactive (or negative inputs): impossible.
        soft: Of those, vanishing although predicted active: tiny, or structurally zero.
        soft_allowed: How many soft ones the zero tolerance itself explains.
        nested: Per record, whether another record's support lies within its own.
        estimated_error: Per record, root mean square error of an entry predicted from the noise.
        relative_noise: Per record, the noise's share of its column of dL/dZ.
    """

    gradients: Float[Tensor, "m b"]
    checks: tuple[Check, ...]
    zeros: Int[Tensor, " b"]
    judged: Int[Tensor, " b"]
    hard: Int[Tensor, " b"]
    soft: Int[Tensor, " b"]
    soft_allowed: tuple[int, ...]
    nested: Bool[Tensor, " b"]
    estimated_error: Float[Tensor, " b"]
    relative_noise: Float[Tensor, " b"]


def examine(
    problem: Problem, records: Float[Tensor, "b n"], scale_identified: bool
) -> LayerEvidence | None:
    r"""Solve the layer's gradient for dL/dZ given the records, and measure what fits.

    With :math:`\partial L/\partial W = U S V^T` and :math:`C = X^T V`, records that explain the
    gradient satisfy :math:`X^T = C V^T`, and then :math:`\partial L/\partial Z = U S C^{-1}`
    whoever proposed them. What a wrong batch cannot have: a bias gradient equal to the row sums of
    that matrix, and zeros in each of its columns exactly where W x + bias is not positive.

    Args:
        problem: The layer and its factors.
        records: One a row; as many as the rank.
        scale_identified: Whether the records' scale is meant to be right.

    Returns:
        The measurements, or None when the records are not finite or not independent.
    """
    factors = problem.factors
    inside = records @ factors.right
    inverse, info = torch.linalg.inv_ex(inside)
    if records.shape[0] != factors.rank or int(info) or not bool(torch.isfinite(inverse).all()):
        return None
    gradients = (factors.left * factors.values) @ inverse
    dual = (inside / factors.values) @ factors.left.T
    error = ((dual.square() @ factors.row_noise.square()).sqrt()) + (
        ZERO_ROUNDINGS * factors.arithmetic_error * dual.norm(dim=1)
    )
    by_gradient = problem.setting is Setting.SPARSE_GRADIENT
    columns = (factors.left.T @ gradients).T if by_gradient else inside
    directions = columns / columns.norm(dim=1, keepdim=True)
    condition = float(torch.linalg.cond(inside))
    tolerance = problem.zero_tolerance(directions) + (
        ZERO_ROUNDINGS * FLOAT64_EPS * condition * problem.sparse.norm(dim=1)
    )
    values = directions @ problem.sparse.T
    informative = problem.informative(directions) & problem.live
    small = (values.abs() <= tolerance) & informative
    active = informative & ~small
    if by_gradient:
        predicted, clear = _predicted_activity(problem, records, error)
        if not scale_identified and problem.layer.bias is not None:
            predicted, clear = _separability(problem, directions, active)
        clear &= informative
    else:
        predicted, clear = values * records.sum(1, keepdim=True) > 0, active
    hard, soft = active & clear & ~predicted, small & clear & predicted
    chance = _chance_zeros(values, tolerance, active)
    return LayerEvidence(
        gradients=gradients,
        checks=_batch_checks(problem, records, inside, gradients, error),
        zeros=small.sum(1),
        judged=clear.sum(1),
        hard=hard.sum(1),
        soft=soft.sum(1),
        soft_allowed=tuple(int(poisson.isf(SOFT_MISMATCH_RATE, rate)) for rate in chance.tolist()),
        nested=_nested(active) if not by_gradient else torch.zeros_like(hard.any(1)),
        estimated_error=error,
        relative_noise=_relative_noise(problem, columns, gradients),
    )


def _predicted_activity(
    problem: Problem, records: Float[Tensor, "b n"], error: Float[Tensor, " b"]
) -> tuple[Bool[Tensor, "b m"], Bool[Tensor, "b m"]]:
    """Which neurons W x + bias activates, and which of those signs are beyond doubt."""
    layer = problem.layer
    before = records @ layer.weight.T
    if layer.bias is not None:
        before = before + layer.bias
    doubt = SIGN_SIGMAS * error[:, None] * layer.weight.norm(dim=1)
    doubt = doubt + SIGN_RELATIVE * before.square().mean(1, keepdim=True).sqrt()
    return before > 0, before.abs() > doubt


def _separability(
    problem: Problem, directions: Float[Tensor, "b b"], active: Bool[Tensor, "b m"]
) -> tuple[Bool[Tensor, "b m"], Bool[Tensor, "b m"]]:
    """In place of a prediction, where the record's scale against the bias is unknown.

    A support that some record could have is predicted as it is; one that none could have, as its
    opposite.
    """
    fits = torch.tensor([plausible(problem, direction) for direction in directions])
    fits = fits.to(active.device)[:, None]
    return torch.where(fits, active, ~active), torch.ones_like(active)


def _chance_zeros(
    values: Float[Tensor, "b p"], tolerance: Float[Tensor, "b p"], active: Bool[Tensor, "b p"]
) -> Float[Tensor, " b"]:
    """Expected number of active entries that are too small to be told from zero."""
    count = active.sum(1).clamp(min=1)
    scale = ((values * active).square().sum(1) / count).sqrt()
    # A Gaussian's density at zero; twice, since the small ones are missing from the scale.
    return 2 * 0.8 * (tolerance * active).sum(1) / scale.clamp(min=torch.finfo(scale.dtype).tiny)


def _nested(support: Bool[Tensor, "b p"]) -> Bool[Tensor, " b"]:
    """Whether a support contains another one, as a positive mixture's does.

    A sum x_j + a x_k with a > 0 has no negative entry either, but its support contains both.
    """
    wide = support.to(torch.float64)
    outside = wide @ (1 - wide).T
    outside.fill_diagonal_(1)
    return (outside == 0).any(0)


def _relative_noise(
    problem: Problem, columns: Float[Tensor, "b b"], gradients: Float[Tensor, "m b"]
) -> Float[Tensor, " b"]:
    factors = problem.factors
    if problem.setting is Setting.SPARSE_INPUT:
        columns = (factors.left.T @ gradients).T
    amplification = (columns / factors.values).norm(dim=1)
    noise = factors.row_noise.square().sum().sqrt() + ZERO_ROUNDINGS * factors.arithmetic_error
    return noise * amplification / gradients.norm(dim=0)


def _batch_checks(
    problem: Problem,
    records: Float[Tensor, "b n"],
    inside: Float[Tensor, "b b"],
    gradients: Float[Tensor, "m b"],
    error: Float[Tensor, " b"],
) -> tuple[Check, ...]:
    """Row space, gradient and bias gradient of the batch as a whole."""
    factors, layer = problem.factors, problem.layer
    outside = (records - inside @ factors.right.T).norm() / records.norm()
    slack = RESIDUAL_FACTOR * error.norm() * records.shape[1] ** 0.5 / records.norm()
    norm = layer.weight_gradient.norm()
    left_over = (layer.weight_gradient - gradients @ records).norm() / norm
    noise = (factors.row_noise.square().sum() * records.shape[1]).sqrt() / norm
    arithmetic = ZERO_ROUNDINGS * FLOAT64_EPS * float(torch.linalg.cond(inside))
    checks = [
        _check(
            "records_in_row_space",
            outside,
            slack + arithmetic,
            "The records lie in the space that the gradient's rows span.",
        ),
        _check(
            "weight_gradient_residual",
            left_over,
            RESIDUAL_FACTOR * noise + arithmetic,
            "The records explain the layer's weight gradient down to rounding or noise.",
        ),
    ]
    if layer.bias_gradient is not None:
        checks.append(_bias_check(problem, gradients, arithmetic))
    return tuple(checks)


def _bias_check(problem: Problem, gradients: Float[Tensor, "m b"], arithmetic: float) -> Check:
    bias_gradient = problem.layer.bias_gradient
    assert bias_gradient is not None  # noqa: S101 - the caller checked it
    factors = problem.factors
    summed = (factors.left.T @ gradients).sum(1)
    amplification = (summed / factors.values).norm()
    # Rounding of the sums themselves, in the dtype the update was observed in, and the noise of one
    # entry, which a difference of weights carries in its bias as in its weights.
    rounding = problem.observed_eps * gradients.abs().sum(1) + factors.row_noise
    noise = (factors.row_noise * amplification + rounding).norm() / bias_gradient.norm()
    residual = (bias_gradient - gradients.sum(1)).norm() / bias_gradient.norm()
    return _check(
        "bias_gradient_residual",
        residual,
        RESIDUAL_FACTOR * noise + arithmetic,
        "The same activation gradients sum to the bias gradient, which fixes every record's scale.",
    )


def _check(name: str, value: Tensor, tolerance: Tensor | float, meaning: str) -> Check:
    measured, allowed = float(value), float(tolerance)
    return Check(name, measured, allowed, measured <= allowed, meaning)
