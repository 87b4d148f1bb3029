"""From directions to records: the scale, the disaggregation matrix, X and dL/dZ."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.linear.blocks import times
from gradaudit.linear.problem import Problem, Setting


@dataclass(frozen=True, eq=False)
class Batch:
    """A reconstruction of one layer's batch, or of some of its records.

    Attributes:
        records: X, one record a row.
        activation_gradients: dL/dZ, one record a column.
        directions: The unit directions it was made from, one a row, in the same order.
        scale_identified: Whether a bias gradient fixed each record's scale.
    """

    records: Float[Tensor, "r n"]
    activation_gradients: Float[Tensor, "m r"]
    directions: Float[Tensor, "r b"]
    scale_identified: bool


def disaggregate(problem: Problem, directions: Float[Tensor, "b b"]) -> Batch | None:
    r"""Scale a full set of directions by the bias gradient and solve for the records.

    Sparse gradient: with :math:`\bar Q` the directions as columns, the scales are
    :math:`c = \bar Q^{-1} U^T \, \partial L / \partial b` (equation 6),
    :math:`X^T = \operatorname{diag}(c)^{-1} \bar Q^{-1} S V^T` (equation 3) and
    :math:`\partial L / \partial Z = U \bar Q \operatorname{diag}(c)` (equation 2).
    Sparse input, the transposed problem: :math:`X = V \bar Q \operatorname{diag}(1/t)` and
    :math:`\partial L / \partial Z = U S \bar Q^{-T} \operatorname{diag}(t)` with
    :math:`t = \bar Q^T S^{-1} U^T \, \partial L / \partial b`.

    Without a bias gradient records come out as unit vectors, their signs chosen so that they agree
    best with what the ReLU demands.

    Args:
        problem: The layer.
        directions: b unit vectors.

    Returns:
        The batch, or None if the directions do not span the space or a scale is zero.

    Source:
        SPEAR (arXiv 2403.03945), Theorems 3.2 and 3.6.
    """
    inverse, info = torch.linalg.inv_ex(directions.T)
    if int(info) or not bool(torch.isfinite(inverse).all()):
        return None
    factors, bias_gradient = problem.factors, problem.layer.bias_gradient
    if problem.setting is Setting.SPARSE_GRADIENT:
        records = (inverse * factors.values) @ factors.right.T
        gradients = factors.left @ directions.T
        scales = None if bias_gradient is None else inverse @ (factors.left.T @ bias_gradient)
    else:
        records = directions @ factors.right.T
        gradients = (factors.left * factors.values) @ inverse.T
        scales = (
            None
            if bias_gradient is None
            # These directions carry 1 / t of the text on the record's side.
            else directions @ ((factors.left.T @ bias_gradient) / factors.values)
        )
    if scales is None:
        signs = _signs(problem, records, gradients)
        norms = records.norm(dim=1)
        scales = signs * norms
        if not bool((norms > 0).all()):
            return None
    elif not bool((scales.abs() > torch.finfo(scales.dtype).tiny).all()):
        return None
    return Batch(
        records / scales[:, None], gradients * scales, directions, bias_gradient is not None
    )


def _signs(
    problem: Problem, records: Float[Tensor, "b n"], gradients: Float[Tensor, "m b"]
) -> Float[Tensor, " b"]:
    """The sign of each record that agrees with the ReLU, where no bias gradient tells it."""
    if problem.setting is Setting.SPARSE_INPUT:
        return torch.where(records.sum(1) < 0, -1.0, 1.0).to(records)
    linear = times(problem.layer.weight, records.T)
    active = ~zero_pattern(problem, gradients)
    # At this point |record| is arbitrary, so that a bias cannot be added; its weight is lost.
    votes = (torch.sign(linear) * torch.where(active, 1.0, -1.0)).sum(0)
    return torch.where(votes < 0, -1.0, 1.0).to(records)


def zero_pattern(problem: Problem, gradients: Float[Tensor, "m b"]) -> Bool[Tensor, "m b"]:
    """Entries of dL/dZ that vanish within the noise of the column they are in.

    Args:
        problem: The layer.
        gradients: dL/dZ = U Q with columns of any norm.
    """
    columns = (problem.factors.left.T @ gradients).T
    norms = columns.norm(dim=1, keepdim=True)
    tolerance = problem.zero_tolerance(columns / norms) * norms
    return (
        gradients.abs().T.le(tolerance).T
        if problem.setting is Setting.SPARSE_GRADIENT
        else (gradients == 0)
    )


def preactivations(problem: Problem, records: Float[Tensor, "b n"]) -> Float[Tensor, "m b"]:
    """W x + bias for every record."""
    linear = times(problem.layer.weight, records.T)
    bias = problem.layer.bias
    return linear if bias is None else linear + bias[:, None]
