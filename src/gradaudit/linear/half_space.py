"""The half-space test: one record's support is a side of a hyperplane; a mixture's is not."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.optimize import linprog
from scipy.stats import poisson
from torch import Tensor

from gradaudit.linear.problem import Problem, Setting

# The linear program's own feasibility tolerance is 1e-7; a margin (of unit rows, with coefficients
# of at most 1) must exceed it to mean anything.
SMALLEST_MARGIN = 1e-6
# A separator is sought by this many Newton steps before a linear program is set up; the ridge keeps
# a separable problem's weights finite.
REGRESSION_STEPS = 12
REGRESSION_RIDGE = 1e-3
# Probability at which more tiny-but-active entries than the zero tolerance explains are too many.
TINY_RATE = 1e-6
# With so many times more rows on the wrong side than are allowed, dropping some is hopeless.
SLACK_FACTOR = 4


def plausible(problem: Problem, direction: Float[Tensor, " b"]) -> bool:
    r"""Whether a direction can belong to a single record, by the ReLU that made it sparse.

    Sparse gradient: neuron i is active for a record x = V c exactly where
    :math:`(W V)_i c + \beta_i > 0`, so that the support of a true column of dL/dZ must be linearly
    separable in the rows of [W V, bias], with a positive weight on the bias (the record's unknown
    scale). The support of a mixture of m rows is so with vanishing probability once m > 2b (Cover
    1965). Decided by a linear program that maximises the margin.
    Entries of active neurons may be so small that the zero tolerance hides them; as many zeros as
    that explains may lie on the wrong side.
    Sparse input: the input of an inner layer is the output of a ReLU, so that all entries of a
    true column have one sign.

    Args:
        problem: The layer.
        direction: An exact direction.

    Source:
        Ours; ``Known weaknesses`` of the half-space search, after Cover's function-counting
        theorem. Separability of last-layer gradients: arXiv 2111.00556.
    """
    zero, active = (mask[0] for mask in problem.pattern(direction[None]))
    values = problem.sparse @ direction
    if problem.setting is Setting.SPARSE_INPUT:
        return bool((values[active] > 0).all()) or bool((values[active] < 0).all())
    rows = (zero | active) & problem.live
    tolerance = problem.zero_tolerance(direction[None])[0][rows]
    return separable(
        problem, rows, active[rows], hidden=_hidden(values[rows], tolerance, active[rows])
    )


def _hidden(
    values: Float[Tensor, " r"], tolerance: Float[Tensor, " r"], active: Bool[Tensor, " r"]
) -> int:
    """How many active entries too small to be told from zero the tolerance explains."""
    scale = values[active].square().mean().sqrt() if bool(active.any()) else values.new_ones(())
    # A Gaussian's density at zero; twice, since the small ones are missing from the scale.
    expected = 2 * 0.8 * float((tolerance[active] / scale).sum())
    return int(poisson.isf(TINY_RATE, expected)) if expected > 0 else 0


def separable(
    problem: Problem, rows: Bool[Tensor, " m"], active: Bool[Tensor, " r"], *, hidden: int = 0
) -> bool:
    """Whether some record activates exactly the given neurons among the given rows.

    Args:
        problem: The layer.
        rows: Mask of the neurons that are judged.
        active: For each of those, whether it is active.
        hidden: How many of the others may be active all the same.
    """
    design = problem.preactivation_map[rows]
    bias = problem.layer.bias
    if bias is not None:
        design = torch.cat([design, bias[rows][:, None]], dim=1)
    # A neuron without weights in the record space is constant and separates nothing.
    norms = design.norm(dim=1)
    design, active = design[norms > 0] / norms[norms > 0][:, None], active[norms > 0]
    if len(design) > 2 * design.shape[1] and _separated_by_regression(
        design, active, signed_bias=bias is not None
    ):
        return True
    signed = (design * torch.where(active, 1.0, -1.0)[:, None]).cpu().numpy()
    count, size = signed.shape
    if not count:
        return False
    # Without a bias the opposite direction is that of the opposite record: one test does for both.
    free = size if bias is None else size - 1
    if _margin(signed, free) > SMALLEST_MARGIN:
        return True
    return hidden > 0 and _separable_but_for(signed, free, active.cpu().numpy(), hidden)


def _separated_by_regression(
    design: Float[Tensor, "r d"], active: Bool[Tensor, " r"], *, signed_bias: bool
) -> bool:
    """Whether a few Newton steps of logistic regression find a separator; no is no answer.

    Ten times faster than the linear program where there is one to find.
    """
    basis, triangle = torch.linalg.qr(design)
    basis = basis * len(basis) ** 0.5
    target = active.to(basis.dtype)
    sign = 2 * target - 1
    weights = basis.T @ sign * (2.0 / len(basis))
    ridge = REGRESSION_RIDGE * torch.eye(basis.shape[1]).to(basis)
    for _ in range(REGRESSION_STEPS):
        margin = sign * (basis @ weights)
        if bool(margin.min() > SMALLEST_MARGIN * weights.norm()):
            if not signed_bias:
                return True
            return bool(
                torch.linalg.solve_triangular(triangle, weights[:, None], upper=True)[-1, 0] >= 0
            )
        chance = torch.sigmoid(basis @ weights)
        curvature = (basis.T * (chance * (1 - chance)).clamp(min=1e-10)) @ basis + ridge
        slope = basis.T @ (target - chance) - REGRESSION_RIDGE * weights
        weights = weights + torch.linalg.solve(curvature, slope)
    return False


def _separable_but_for(signed: np.ndarray, free: int, active: np.ndarray, hidden: int) -> bool:
    """Whether so few rows can be dropped, none of them active, that the rest has a margin.

    The fewest such rows are hard to find; those that a program with slack leaves furthest on the
    wrong side, dropped one by one, are nearly always they (Chinneck 1996).
    """
    signed, active = signed.copy(), active.copy()
    for _ in range(hidden):
        slack = _slack(signed, free, active)
        if slack is None or int((slack > 1.0).sum()) > SLACK_FACTOR * hidden:
            return False
        worst = int(slack.argmax())
        signed, active = np.delete(signed, worst, axis=0), np.delete(active, worst)
        if _margin(signed, free) > SMALLEST_MARGIN:
            return True
    return False


def _slack(signed: np.ndarray, free: int, active: np.ndarray) -> np.ndarray | None:
    """How far each inactive row misses a margin of 1 where the sum of misses is least."""
    count, size = signed.shape
    loose = np.flatnonzero(~active)
    columns = np.zeros((count, len(loose)))
    columns[loose, np.arange(len(loose))] = -1.0
    solution = linprog(
        np.r_[np.zeros(size), np.ones(len(loose))],
        A_ub=np.c_[-signed, columns],
        b_ub=-np.ones(count),
        bounds=[(None, None)] * free + [(0.0, None)] * (size - free + len(loose)),
        method="highs",
    )
    if solution.status != 0 or solution.x is None or not len(loose):
        return None
    slack = np.zeros(count)
    slack[loose] = solution.x[size:]
    return slack


def _margin(signed: np.ndarray, free: int) -> float:
    """The largest t with signed @ p >= t, |p| <= 1, and p >= 0 beyond the first ``free``."""
    count, size = signed.shape
    solution = linprog(
        np.r_[np.zeros(size), -1.0],
        A_ub=np.c_[-signed, np.ones(count)],
        b_ub=np.zeros(count),
        bounds=[(-1.0, 1.0)] * free + [(0.0, 1.0)] * (size - free) + [(None, 1.0)],
        method="highs",
    )
    return -float(solution.fun) if solution.status == 0 and solution.fun is not None else 0.0
