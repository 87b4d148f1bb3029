"""What a direction says of its own record: the two are a pair, tied by one common matrix."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from gradaudit.linear.logistic import newton_step
from gradaudit.linear.problem import Problem

# Power of the singular values in the guess of a record's row of Q^-1 from its direction. It would
# be 0 if gradients of different records were orthogonal, and -2 if records were; gradients are
# closer to that.
RECORD_POWER = -0.35
# Correlation of the guess's pre-activations with the true ones, as measured on CIFAR-10 (0.6 to
# 0.85); the rest of the guess is error.
GUESS_CORRELATION = 0.75
# The fit of a half-space to a record's exact support: steps, ridge, and its error's share of the
# whole, in units of dimensions over rows (0.06 at b = 200 and m = 1000).
FIT_STEPS, FIT_RIDGE, FIT_CURVATURE, FIT_LONGEST = 8, 1.0, 1e-4, 8.0
FIT_ERROR = 0.3
# Of the guess's error, which is not spread evenly as the formula has it: larger trusts it more.
GUESS_TRUST = 0.3


def record_link(
    problem: Problem, features: Float[Tensor, "l d"], triangle: Float[Tensor, "b b"]
) -> Float[Tensor, "d b"]:
    r"""From a whitened direction to the half-space of its own record, roughly.

    The rows of :math:`Q^{-1} = Q^T (Q Q^T)^{-1}` are :math:`p_j = (Q Q^T)^{-1} q_j`: one symmetric
    matrix, the same for all records, takes every direction to its record. It would be I if
    gradients of different records were orthogonal, and :math:`S^{-2}` if records were; taken is
    a power of S between.

    Args:
        problem: The layer.
        features: Whitened coordinates of half-spaces, for the live rows.
        triangle: R of the whitening of the live rows: a whitened direction is R q.

    Source:
        Ours.
    """
    activation = problem.activation_map[problem.live, : problem.batch_size]
    scaled = activation * _guess_scale(problem)
    raw = torch.linalg.solve_triangular(triangle, scaled, upper=True, left=False)
    return (features.to(raw).T @ raw / len(raw)).to(features)


def record_rows(problem: Problem, directions: Float[Tensor, "k b"]) -> Float[Tensor, "k b"]:
    r"""The rows of :math:`Q^{-1}` that belong to exact directions, up to scale, roughly.

    Two independent estimates of each, weighed by their errors: the half-space that fits the
    direction's support best, and the guess of `record_link`. The first is good where
    pre-activations are sensitive, the second where they are not. (Overlap with the true row for
    CIFAR-10 at b = 200, m = 1000: 0.71 and 0.87 alone, 0.92 together.)

    Every other direction is orthogonal to these rows, so that they keep a search away from what is
    known.

    Args:
        problem: The layer, in the sparse-gradient setting.
        directions: Exact.

    Source:
        Ours.
    """
    live, size = problem.live, problem.batch_size
    # The bias first, where it has a column of its own: what is orthogonal to it is for the row.
    columns = torch.cat(
        [problem.activation_map[live, size:], problem.activation_map[live, :size]], dim=1
    )
    basis, triangle = torch.linalg.qr(columns)
    basis = basis * len(basis) ** 0.5
    zero, active = problem.pattern(directions)
    design = torch.cat([basis, torch.ones_like(basis[:, :1])], dim=1).to(torch.float32)
    fit = design.new_zeros(len(directions), design.shape[1])
    for _ in range(FIT_STEPS):
        fit = newton_step(
            design,
            fit,
            active[:, live].to(design),
            ridge=FIT_RIDGE,
            curvature_floor=FIT_CURVATURE,
            judged=(zero | active)[:, live].to(design),
            longest=FIT_LONGEST,
        )
    fit = normalize(fit[:, columns.shape[1] - size : -1], dim=1).to(triangle)
    square = triangle[-size:, -size:]
    guess = directions * _guess_scale(problem)
    seen = guess @ square.T
    # A direction's sign is free; its record's is not.
    guess = guess * torch.sign((seen * fit).sum(1, keepdim=True))
    guess = GUESS_CORRELATION * guess / seen.norm(dim=1, keepdim=True)
    fit_precision = size / (FIT_ERROR * size / len(basis))
    guess_precision = size / (GUESS_TRUST * guess.square().sum(1).mean())
    precision = fit_precision * square.T @ square + guess_precision * torch.eye(
        size, dtype=square.dtype, device=square.device
    )
    return torch.linalg.solve(
        precision, (fit_precision * fit @ square + guess_precision * guess).T
    ).T


def _guess_scale(problem: Problem) -> Float[Tensor, " b"]:
    values = problem.factors.values
    return (values / values.max()) ** RECORD_POWER
