"""What one layer's observed gradient says about proposed records, with no help from the attack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import poisson
from torch import Tensor

from gradaudit.certify.leftover import is_rounding, largest_singular_value, noise_check
from gradaudit.evidence import Check
from gradaudit.linear.half_space import plausible
from gradaudit.linear.null_space import masked_null_vectors
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.tolerances import (
    ACTIVE_TOLERANCES,
    FLOAT64_EPS,
    RESIDUAL_FACTOR,
    SIGN_RELATIVE,
    SIGN_SIGMAS,
    ZERO_ROUNDINGS,
)

# Probability at which more tiny-but-active entries than expected count as a contradiction.
SOFT_MISMATCH_RATE = 1e-6

# A second direction in which a record's zeros vanish would have a squared sine below these.
KERNEL_GAP = 1e-10
KERNEL_CONTRAST = 100.0


@dataclass(frozen=True, eq=False)
class LayerEvidence:
    """Measurements; the verdict on them is `gradaudit.certify.verdict`'s.

    Attributes:
        gradients: dL/dZ, solved from the observed gradient and the records alone.
        checks: Of the batch as a whole.
        zeros: Per record, informative entries of its sparse column that vanish.
        clear: Per record, which entries have a sign that the records predict beyond doubt.
        hard: Of those, active although predicted inactive (or negative inputs): impossible.
        soft: Of those, vanishing although predicted active: tiny, or structurally zero.
        soft_allowed: How many soft ones the zero tolerance itself explains.
        determined: Per record, whether its zeros fit no other direction.
        left_over: Largest singular value of what the records do not explain of the gradient.
        only_rounding: Whether that is no more than the rounding of the observed type.
        estimated_error: Per record, root mean square error of an entry predicted from the noise.
        relative_noise: Per record, the noise's share of its column of dL/dZ.
    """

    gradients: Float[Tensor, "m b"]
    checks: tuple[Check, ...]
    zeros: Int[Tensor, " b"]
    clear: Bool[Tensor, "b p"]
    hard: Int[Tensor, " b"]
    soft: Int[Tensor, " b"]
    soft_allowed: tuple[int, ...]
    determined: Bool[Tensor, " b"]
    left_over: float
    only_rounding: bool
    estimated_error: Float[Tensor, " b"]
    relative_noise: Float[Tensor, " b"]

    @property
    def judged(self) -> Int[Tensor, " b"]:
        """Per record, number of clear entries."""
        return self.clear.sum(1)


def examine(
    problem: Problem,
    records: Float[Tensor, "b n"],
    scale_identified: bool,
    *,
    is_delta: bool = False,
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
        is_delta: Whether the update is a difference of weights and carries their rounding.

    Returns:
        The measurements, or None when the records are not finite or not independent.
    """
    factors = problem.factors
    inside = records @ factors.right
    if len(records) != factors.rank:
        return None
    inverse, info = torch.linalg.inv_ex(inside)
    if int(info) or not bool(torch.isfinite(inverse).all()):
        return None
    gradients = (factors.left * factors.values) @ inverse
    # Each row reads one record off the gradient: dual @ dL/dW = X, and dual @ dL/db = 1.
    dual = (inside / factors.values) @ factors.left.T
    error = ((dual.square() @ factors.row_noise.square()).sqrt()) + (
        ZERO_ROUNDINGS * factors.arithmetic_error * dual.norm(dim=1)
    )
    scale_error = torch.zeros_like(error)
    if problem.layer.bias_gradient is not None and scale_identified:
        noise = _bias_noise(problem, gradients)
        scale_error = (dual.square() @ noise.square()).sqrt()
        error = (error.square() + scale_error.square() * records.square().mean(1)).sqrt()
    by_gradient = problem.setting is Setting.SPARSE_GRADIENT
    columns = (factors.left.T @ gradients).T if by_gradient else inside
    directions = columns / columns.norm(dim=1, keepdim=True)
    # Sizes of records do not matter to the accuracy of an inverse.
    condition = float(torch.linalg.cond(inside / inside.norm(dim=1, keepdim=True)))
    tolerance = problem.zero_tolerance(directions) + (
        ZERO_ROUNDINGS * FLOAT64_EPS * condition * problem.sparse.norm(dim=1)
    )
    values = directions @ problem.sparse.T
    informative = problem.informative(directions) & problem.live
    if by_gradient and problem.batch_size == 1:
        # A single record's silent neurons are exact zeros, whatever their noise.
        informative |= problem.sparse[:, 0] == 0
    small = (values.abs() <= tolerance) & informative
    active = informative & (values.abs() > ACTIVE_TOLERANCES * tolerance)
    if by_gradient:
        predicted, clear = _predicted_activity(problem, records, error)
        if not scale_identified and problem.layer.bias is not None:
            predicted, clear = _separability(problem, directions, active)
        clear &= informative
    else:
        predicted, clear = values * records.sum(1, keepdim=True) > 0, active
    hard, soft = active & clear & ~predicted, small & clear & predicted
    chance = _chance_zeros(values, tolerance, active).cpu().numpy()
    gradient = problem.layer.weight_gradient
    leftover = gradient - gradients @ records
    return LayerEvidence(
        gradients=gradients,
        checks=(
            _row_space_check(problem, records, inside, error),
            *_residual_checks(problem, leftover, gradients, condition),
            *_scale_check(problem, dual, scale_error, scale_identified),
            noise_check(gradient, leftover, condition),
        ),
        zeros=small.sum(1),
        clear=clear,
        hard=hard.sum(1),
        soft=soft.sum(1),
        soft_allowed=tuple(int(n) for n in np.atleast_1d(poisson.isf(SOFT_MISMATCH_RATE, chance))),
        determined=_determined(problem, small & ~predicted if by_gradient else small),
        left_over=largest_singular_value(leftover),
        only_rounding=is_rounding(
            gradient, leftover, problem.observed_eps, problem.layer.weight if is_delta else None
        ),
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
    fits = plausible(problem, directions)[:, None]
    return torch.where(fits, active, ~active), torch.ones_like(active)


def _chance_zeros(
    values: Float[Tensor, "b p"], tolerance: Float[Tensor, "b p"], active: Bool[Tensor, "b p"]
) -> Float[Tensor, " b"]:
    """Expected number of active entries that are too small to be told from zero."""
    count = active.sum(1).clamp(min=1)
    scale = ((values * active).square().sum(1) / count).sqrt()
    # A Gaussian's density at zero; twice, since the small ones are missing from the scale.
    expected = 2 * 0.8 * (tolerance * active).sum(1) / scale
    return torch.nan_to_num(expected, nan=0.0, posinf=torch.inf).minimum(active.sum(1))


def _determined(problem: Problem, small: Bool[Tensor, "b p"]) -> Bool[Tensor, " b"]:
    """Whether the entries that vanish for a record do so for one direction alone.

    Where another record's support lies within its own, a sum of the two vanishes as well. Only
    zeros that the record's own pattern explains count: two records that activate the same neurons
    share them all, and a sum of the two can be made to vanish at one more neuron, which would
    then seem to single it out.
    """
    size = problem.batch_size
    if size == 1:
        return torch.ones_like(small[:, 0])
    norms = problem.sparse.norm(dim=1, keepdim=True)
    unit = problem.sparse / norms.clamp(min=torch.finfo(norms.dtype).tiny)
    # The smallest is the record's own and shows the noise; the next is another direction's.
    _, first, second = masked_null_vectors(unit, small.to(unit))
    return second > KERNEL_CONTRAST * first + KERNEL_GAP


def _relative_noise(
    problem: Problem, columns: Float[Tensor, "b b"], gradients: Float[Tensor, "m b"]
) -> Float[Tensor, " b"]:
    factors = problem.factors
    if problem.setting is Setting.SPARSE_INPUT:
        columns = (factors.left.T @ gradients).T
    amplification = (columns / factors.values).norm(dim=1)
    noise = factors.row_noise.square().sum().sqrt() + ZERO_ROUNDINGS * factors.arithmetic_error
    return noise * amplification / gradients.norm(dim=0)


def _row_space_check(
    problem: Problem,
    records: Float[Tensor, "b n"],
    inside: Float[Tensor, "b b"],
    error: Float[Tensor, " b"],
) -> Check:
    """Every record for itself: a small one must not hide behind a large one's tolerance."""
    sizes = records.norm(dim=1)
    outside = (records - inside @ problem.factors.right.T).norm(dim=1) / sizes
    allowed = RESIDUAL_FACTOR * error * records.shape[1] ** 0.5 / sizes
    return _worst(
        "records_in_row_space",
        outside,
        allowed + ZERO_ROUNDINGS * FLOAT64_EPS,
        "The records lie in the space that the gradient's rows span.",
    )


def _residual_checks(
    problem: Problem,
    leftover: Float[Tensor, "m n"],
    gradients: Float[Tensor, "m b"],
    condition: float,
) -> list[Check]:
    """The weight gradient and the bias gradient as a whole."""
    factors, layer = problem.factors, problem.layer
    norm = layer.weight_gradient.norm()
    noise = (factors.row_noise.square().sum() * leftover.shape[1]).sqrt() / norm
    arithmetic = ZERO_ROUNDINGS * FLOAT64_EPS * condition
    checks = [
        _check(
            "weight_gradient_residual",
            leftover.norm() / norm,
            RESIDUAL_FACTOR * noise + arithmetic,
            "The records explain the layer's weight gradient down to rounding or noise.",
        )
    ]
    if layer.bias_gradient is not None:
        size = layer.bias_gradient.norm()
        summed = (factors.left.T @ gradients).sum(1)
        amplified = factors.row_noise * (summed / factors.values).norm()
        noise = (amplified + _bias_noise(problem, gradients)).norm() / size
        checks.append(
            _check(
                "bias_gradient_residual",
                (layer.bias_gradient - gradients.sum(1)).norm() / size,
                RESIDUAL_FACTOR * noise + arithmetic,
                "The same activation gradients sum to the bias gradient.",
            )
        )
    return checks


def _bias_noise(problem: Problem, gradients: Float[Tensor, "m b"]) -> Float[Tensor, " m"]:
    """Rounding of the sums in the observed type, and the noise that one entry carries."""
    return problem.observed_eps * gradients.abs().sum(1) + problem.factors.row_noise


def _scale_check(
    problem: Problem,
    dual: Float[Tensor, "b m"],
    scale_error: Float[Tensor, " b"],
    scale_identified: bool,
) -> list[Check]:
    """Every record's scale, which its own share of the bias gradient fixes."""
    observed = problem.layer.bias_gradient
    if observed is None or not scale_identified:
        return []
    arithmetic = ZERO_ROUNDINGS * FLOAT64_EPS * dual.norm(dim=1) * observed.norm()
    return [
        _worst(
            "record_scales",
            (dual @ observed - 1).abs(),
            RESIDUAL_FACTOR * scale_error + arithmetic,
            "The bias gradient gives every record the scale it has.",
        )
    ]


def _worst(
    name: str, values: Float[Tensor, " b"], allowed: Float[Tensor, " b"], meaning: str
) -> Check:
    """The check of the record that comes closest to failing, or fails most."""
    at = int((values / allowed).argmax())
    return _check(name, values[at], allowed[at], meaning)


def _check(name: str, value: Tensor, tolerance: Tensor | float, meaning: str) -> Check:
    measured, allowed = float(value), float(tolerance)
    return Check(name, measured, allowed, measured <= allowed, meaning)
