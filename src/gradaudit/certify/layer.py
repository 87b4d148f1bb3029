"""What one layer's observed gradient says about proposed records, with no help from the attack."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.certify.leftover import is_rounding, largest_singular_value, noise_check, norm_of
from gradaudit.certify.pattern import PatternEvidence, examine_pattern
from gradaudit.evidence import Check
from gradaudit.linear.blocks import frobenius
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.remainder import Remainder
from gradaudit.linear.tolerances import (
    FLOAT64_EPS,
    RESIDUAL_FACTOR,
    ZERO_ROUNDINGS,
)


@dataclass(frozen=True, eq=False)
class LayerEvidence:
    """Measurements; the verdict on them is `gradaudit.certify.verdict`'s.

    Attributes:
        gradients: dL/dZ, solved from the observed gradient and the records alone.
        checks: Of the batch as a whole.
        pattern: Per record, where its sparse column vanishes and where it ought to.
        left_over: Largest singular value of what the records do not explain of the gradient.
        only_rounding: Whether that is no more than the rounding of the observed type.
        estimated_error: Per record, root mean square error of an entry predicted from the noise.
        relative_noise: Per record, the noise's share of its column of dL/dZ.
    """

    gradients: Float[Tensor, "m b"]
    checks: tuple[Check, ...]
    pattern: PatternEvidence
    left_over: float
    only_rounding: bool
    estimated_error: Float[Tensor, " b"]
    relative_noise: Float[Tensor, " b"]


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
    # Sizes of records do not matter to the accuracy of an inverse.
    condition = float(torch.linalg.cond(inside / inside.norm(dim=1, keepdim=True)))
    gradient = problem.layer.weight_gradient
    leftover = (
        Remainder(gradient, gradients, records)
        if factors.streamed
        else gradient - gradients @ records
    )
    return LayerEvidence(
        gradients=gradients,
        checks=(
            _row_space_check(problem, records, inside, error),
            *_residual_checks(problem, leftover, gradients, condition),
            *_scale_check(problem, dual, scale_error, scale_identified),
            noise_check(gradient, leftover, condition),
        ),
        pattern=examine_pattern(
            problem,
            columns / columns.norm(dim=1, keepdim=True),
            records,
            error,
            scale_identified=scale_identified,
            condition=condition,
        ),
        left_over=largest_singular_value(leftover),
        only_rounding=is_rounding(
            gradient, leftover, problem.observed_eps, problem.layer.weight if is_delta else None
        ),
        estimated_error=error,
        relative_noise=_relative_noise(problem, columns, gradients),
    )


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
    leftover: Float[Tensor, "m n"] | Remainder,
    gradients: Float[Tensor, "m b"],
    condition: float,
) -> list[Check]:
    """The weight gradient and the bias gradient as a whole."""
    factors, layer = problem.factors, problem.layer
    norm = frobenius(layer.weight_gradient)
    noise = (factors.row_noise.square().sum() * leftover.shape[1]).sqrt() / norm
    arithmetic = ZERO_ROUNDINGS * FLOAT64_EPS * condition
    checks = [
        _check(
            "weight_gradient_residual",
            norm_of(leftover) / norm,
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
