"""A direction that its own record contradicts: solved anew from the record's half-space."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

from gradaudit.linear.blocks import row_norms
from gradaudit.linear.problem import Problem
from gradaudit.noisy.expectation import UNCERTAIN, smallest
from gradaudit.noisy.joint import CLEAR_SIGMAS, Fit, fit_jointly

# Times a typical record's: in a batch of right directions, temperatures are alike to a factor of 2.
OUTLYING = 4.0
# Of inverse iteration, from a direction that is wrong by a share of another one.
ITERATIONS = 5


def resolve_contradictions(problem: Problem, fit: Fit) -> Fit:
    r"""Free directions from entries that hold them where their records say they are wrong.

    A share of another record's activation gradient in :math:`g_j` is a share of record j in that
    other record, with the opposite sign: record j itself is right, and so is its half-space. The
    fit may rest there all the same, since the entries that should vanish say that they do not, and
    the half-space is then believed the less (`Fit.temperature`). Without them the direction is the
    one that vanishes on the neurons that the record clearly leaves inactive.

    Args:
        problem: The layer.
        fit: That came to rest.

    Returns:
        A fit that explains more, or the same.

    Source:
        Ours.
    """
    values, left = problem.factors.values, problem.factors.left
    level = float(problem.sparse_noise.mean())
    rows = left * len(left) ** 0.5
    noise = level**2 * len(left) / values.square()
    for _ in range(len(values)):
        wrong = fit.temperature >= OUTLYING * fit.temperature.median()
        if not bool(wrong.any()):
            break
        gradients = fit.directions @ left.T
        error = level * torch.linalg.inv(gradients @ gradients.T).diagonal().clamp(min=0).sqrt()
        bias = 0.0 if problem.layer.bias is None else problem.layer.bias
        sides = fit.mixtures @ problem.preactivation_map.T + bias
        spread = error[:, None] * row_norms(problem.layer.weight).to(error)
        inactive = (sides[wrong] < -CLEAR_SIGMAS * spread[wrong]).to(rows) + UNCERTAIN
        directions = normalize(fit.directions, dim=1)
        for _ in range(ITERATIONS):
            directions[wrong] = smallest(rows, inactive, noise, directions[wrong])
        again = fit_jointly(problem, directions)
        if again is None or float(again.evidence.sum()) <= float(fit.evidence.sum()):
            break
        fit = again
    return fit
