"""Whether records from a noisy gradient are those that fit it best, but for noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from scipy.special import gammaincc
from torch import Tensor

from gradaudit.linear.blocks import transposed_times
from gradaudit.linear.problem import Problem
from gradaudit.linear.tolerances import FLOAT64_EPS

# A fit differs from true records by their standard error, in each entry: by its root mean square
# over hundreds of entries, and of what is claimed if that is more.
LARGEST_MOVE = 2.0
# Probability of scales so far from what the bias's gradient says, for true records; records that
# were fitted to it are far nearer.
SCALES_BY_CHANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Refit:
    """Records fitted again to the gradient, given the activation gradients that they lead to.

    Attributes:
        noise: Standard error of an entry of each record so fitted: no record is known better.
        moves: Root mean square of what the fit changes an entry of each by.
        scales: Probability that right records have scales so far from what the bias's gradient
            says; 1 without it.
    """

    noise: Float[Tensor, " b"]
    moves: Float[Tensor, " b"]
    scales: float

    def objection(self, index: int, claimed: float) -> str:
        """What the fit says against a record; empty where nothing.

        Args:
            index: The record's.
            claimed: Standard error of an entry.
        """
        move, allowed = float(self.moves[index]), max(claimed, float(self.noise[index]))
        if move > LARGEST_MOVE * allowed:
            return (
                f"the gradient moves it by {move:.2g} an entry, which is more than its error of "
                f"{allowed:.2g}"
            )
        if self.scales < SCALES_BY_CHANCE:
            return "the records' scales are not those that the bias's gradient shows"
        return ""


def fit_again(
    problem: Problem,
    records: Float[Tensor, "b n"],
    gradients: Float[Tensor, "m b"],
    level: float,
) -> Refit | None:
    r"""Solve :math:`\nabla_W = G X^T` for X by least squares, with G as the records give it.

    A batch that is moved as a whole, such as scaled, leaves little more in the gradient than noise
    does, as that little is spread over all of its entries. Along the columns of G it is gathered:
    the fit's standard error is that of a record's entry. The bias is one more input that is 1 for
    every record, so that its fit, with as large an error, tells how far scales are off; over all
    records, :math:`(c - 1)^T G^T G (c - 1) / \sigma^2 (1 - h)` has a chi-squared distribution, with
    h the leverage of the bias in the fit that gave G.

    Args:
        problem: The layer.
        records: Proposed inputs.
        gradients: dL/dZ by least squares from these.
        level: Standard deviation of the noise in an entry, sigma.

    Returns:
        None where the gradients are not independent.

    Source:
        Ours.
    """
    gram = gradients.T @ gradients
    factor, failed = torch.linalg.cholesky_ex(gram)
    if int(failed) or not bool(torch.isfinite(factor).all()):
        return None
    noise = level * torch.cholesky_inverse(factor).diagonal().sqrt()
    layer = problem.layer
    fitted = torch.cholesky_solve(transposed_times(layer.weight_gradient, gradients).T, factor)
    moves = (fitted - records).square().mean(1).sqrt()
    scales = 1.0
    if layer.bias_gradient is not None:
        shown = gradients.T @ (layer.bias_gradient - gradients.sum(1))
        off = float(shown @ torch.cholesky_solve(shown[:, None], factor)[:, 0])
        scales = float(gammaincc(len(records) / 2, off / (level**2 * _left(records)) / 2))
    return Refit(noise, moves, scales)


def _left(records: Float[Tensor, "b n"]) -> float:
    """What a fit of the activation gradients leaves of noise in the bias's gradient, 1 - h."""
    # Records that are all but dependent have an inverse that rounding decides.
    inverse = torch.linalg.pinv(records @ records.T + 1, hermitian=True)
    return max(1.0 - float(inverse.sum()), FLOAT64_EPS)
