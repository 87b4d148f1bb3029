"""What each record's gradient is multiplied by in an update: all alike, or each its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from scipy.special import gammaincc
from torch import Tensor

# Probability of weights so far from being alike, if they are, below which they are not.
AGAINST_ALIKE = 1e-3
# Standard errors by which one record's weight may differ from the common one without any doubt.
CHANCE_SIGMAS = 2.0


@dataclass(frozen=True, eq=False)
class Weights:
    """What each record's gradient is multiplied by.

    Attributes:
        values: One a record.
        relative_error: Standard error of each, over it. Of a common weight, what the bias's
            gradient says beyond chance against it for that record.
        alike: Whether it is one for all records.
    """

    values: Float[Tensor, " b"]
    relative_error: Float[Tensor, " b"]
    alike: bool


def estimate_weights(
    unit: Float[Tensor, "b m"],
    bias_gradient: Float[Tensor, " m"],
    level: float,
    later: Sequence[tuple[Tensor, Tensor]] = (),
) -> Weights | None:
    r"""Fit :math:`\nabla_b = \sum_j w_j g_j`, by one weight if the noise allows it.

    One weight for all records, as of a mean or a sum, is fitted to the biases of all layers: those
    of the last one are far larger than the noise, and an error of the scale is one of all records.
    Else, as of gradients that are clipped, weights are known only as well as the records are. (That
    a clipped weight is the limit over a norm says little: norm and record grow together.)

    Args:
        unit: :math:`g_j`, the gradient of each record's own loss at the layer's outputs.
        bias_gradient: As observed.
        level: Standard deviation of the noise in an entry.
        later: The same two of every later layer.

    Returns:
        None where the gradients are not independent.

    Example:
        >>> unit = torch.eye(3, 6, dtype=torch.float64)
        >>> estimate_weights(unit, 0.5 * unit.sum(0), 1e-3).values
        tensor([0.5000, 0.5000, 0.5000], dtype=torch.float64)
    """
    gram, seen = unit @ unit.T, unit @ bias_gradient
    factor, failed = torch.linalg.cholesky_ex(gram)
    if int(failed) or not bool(torch.isfinite(factor).all()):
        return None
    free = torch.cholesky_solve(seen[:, None], factor)[:, 0]
    freedom = max(len(bias_gradient) - len(unit), 1)
    # What the gradients themselves are off is no noise, but it is as good as some.
    rest = float((bias_gradient - free @ unit).square().sum()) / freedom
    variance = max(level**2, rest)
    spread = (variance * torch.cholesky_inverse(factor).diagonal()).sqrt()

    lines = [(unit, bias_gradient), *later]
    common = torch.ones_like(free) * (seen.sum() / gram.sum())
    off = free - common
    chi = float(off @ gram @ off) / variance
    if float(gammaincc(max(len(unit) - 1, 1) / 2, chi / 2)) < AGAINST_ALIKE:
        return Weights(free, spread / free.abs(), alike=False)
    # Of many records some are off by two standard errors, if it is right.
    against = (off.square() - (CHANCE_SIGMAS * spread).square()).clamp(min=0).sqrt()
    return Weights(_rescaled(common, lines), against / common.abs(), alike=True)


def _rescaled(common: Tensor, lines: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """The multiple of weights that fits the biases of several layers best."""
    sums = [(common @ unit, observed) for unit, observed in lines]
    square = sum(float(total @ total) for total, _ in sums)
    return common * (sum(float(total @ observed) for total, observed in sums) / square)
