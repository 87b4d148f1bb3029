"""The half-space test: one record's support is a side of a hyperplane; a mixture's is not."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.optimize import linprog
from torch import Tensor

from gradaudit.linear.drift import settled
from gradaudit.linear.logistic import newton_step
from gradaudit.linear.problem import Problem, Setting
from gradaudit.theory.counts import poisson_allowed

# The linear program's own feasibility tolerance is 1e-7; a margin (of unit rows, with coefficients
# of at most 1) must exceed it to mean anything.
SMALLEST_MARGIN = 1e-6
# A separator is sought by so many Newton steps, truncated and exact, before a linear program is set
# up; the ridge keeps a separable problem's weights finite.
QUICK_STEPS, QUICK_RIDGE = 8, 1e-3
EXACT_STEPS, EXACT_RIDGE = 12, 1e-6
CURVATURE_FLOOR = 1e-10
# With more than this part of the rows on the wrong side of the best regression a linear program is
# not tried: a record's pattern leaves next to none.
HOPELESS_SHARE, HOPELESS_ROWS = 0.02, 16
# Probability at which more tiny-but-active entries than the zero tolerance explains are too many.
TINY_RATE = 1e-6
# With so many times more rows on the wrong side than are allowed, dropping some is hopeless.
SLACK_FACTOR = 4
# How often a separator is sought again without the rows that seem to be hidden.
TRIMMINGS = 3


def plausible(problem: Problem, directions: Float[Tensor, "k b"]) -> Bool[Tensor, " k"]:
    r"""Which directions can belong to a single record, by the ReLU that made them sparse.

    Sparse gradient: neuron i is active for a record x = V c exactly where
    :math:`(W V)_i c + \beta_i > 0`, so that the support of a true column of dL/dZ must be linearly
    separable in the rows of [W V, bias], with a positive weight on the bias (the record's unknown
    scale). The support of a mixture of m rows is so with vanishing probability once m > 2b (Cover
    1965). Logistic regression finds a separator where there is one, for all directions at once;
    where it finds none, and leaves few rows on the wrong side, a linear program that maximises the
    margin decides.
    Entries of active neurons may be so small that the zero tolerance hides them; as many zeros as
    that explains may lie on the wrong side.
    After several steps of training only neurons count that the separator, taken for the record,
    settles (see `drift`); the others may have been on either side.
    Sparse input: the input of an inner layer is the output of a ReLU, so that all entries of a
    true column have one sign.

    Args:
        problem: The layer.
        directions: Exact directions.

    Source:
        Ours; ``Known weaknesses`` of the half-space search, after Cover's function-counting
        theorem. Separability of last-layer gradients: arXiv 2111.00556.
    """
    zero, active = problem.pattern(directions)
    values = directions @ problem.sparse.T
    if problem.setting is Setting.SPARSE_INPUT:
        return ((values > 0) | ~active).all(1) | ((values < 0) | ~active).all(1)
    judged = (zero | active) & problem.live
    fits, against = _separated_by_regression(problem, judged, active)
    wrong = against.sum(1)
    tolerances = problem.zero_tolerance(directions)
    hopeless = wrong > (HOPELESS_SHARE * judged.sum(1)).clamp(min=HOPELESS_ROWS)
    for index in torch.nonzero(~fits & ~hopeless)[:, 0].tolist():
        rows = judged[index]
        firing = active[index, rows]
        hidden = _hidden(values[index, rows], tolerances[index, rows], firing)
        if problem.activation_drift is None:
            fits[index] = separable(problem, rows, firing, hidden=hidden)
        else:
            # A small margin is no side at all, so that no program need look for one.
            fits[index] = _all_but_hidden(
                problem, judged[index], active[index], against[index], hidden
            )
    return fits


def _all_but_hidden(
    problem: Problem,
    judged: Bool[Tensor, " m"],
    active: Bool[Tensor, " m"],
    against: Bool[Tensor, " m"],
    hidden: int,
) -> bool:
    """Whether a separator leaves no more rows on the wrong side than may be hidden.

    Rows that are hidden turn the separator past others: it is sought again without the zeros that
    the last one left on the active side.
    """
    for _ in range(TRIMMINGS):
        count = int(against.sum())
        if count <= hidden:
            return True
        if count > SLACK_FACTOR * hidden:
            return False
        fitted = judged & ~(against & ~active)
        against = _separated_by_regression(problem, judged[None], active[None], fitted[None])[1][0]
    return int(against.sum()) <= hidden


def _hidden(
    values: Float[Tensor, " r"], tolerance: Float[Tensor, " r"], active: Bool[Tensor, " r"]
) -> int:
    """How many active entries too small to be told from zero the tolerance explains."""
    scale = values[active].square().mean().sqrt() if bool(active.any()) else values.new_ones(())
    # A Gaussian's density at zero; twice, since the small ones are missing from the scale.
    expected = 2 * 0.8 * float((tolerance[active] / scale).sum())
    return int(poisson_allowed(TINY_RATE, expected)[0])


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
    design, bounded = _design(problem)
    design = design[rows]
    # A neuron without weights in the record space is constant and separates nothing.
    norms = design.norm(dim=1)
    design, active = design[norms > 0] / norms[norms > 0][:, None], active[norms > 0]
    signed = (design * torch.where(active, 1.0, -1.0)[:, None]).cpu().numpy()
    count, size = signed.shape
    if not count:
        return False
    free = size - bounded
    if _margin(signed, free) > SMALLEST_MARGIN:
        return True
    return hidden > 0 and _separable_but_for(signed, free, active.cpu().numpy(), hidden)


def _design(problem: Problem) -> tuple[Float[Tensor, "m d"], int]:
    """[W V, bias], and how many of its last columns must have a weight that is not negative.

    Without a bias the opposite direction is that of the opposite record: one test does for both.
    """
    bias = problem.layer.bias
    if bias is None:
        return problem.preactivation_map, 0
    return torch.cat([problem.preactivation_map, bias[:, None]], dim=1), 1


def _design_drift(problem: Problem) -> Float[Tensor, "m d"] | None:
    """Half of what several steps changed the design by."""
    if problem.activation_drift is None:
        return None
    drift = problem.factors.left * (problem.factors.values / 2)
    if problem.layer.bias is None:
        return drift
    bias = problem.layer.bias_gradient
    moved = torch.zeros_like(drift[:, 0]) if bias is None else bias / 2
    return torch.cat([drift, moved[:, None]], dim=1)


def _separated_by_regression(
    problem: Problem,
    judged: Bool[Tensor, "k m"],
    active: Bool[Tensor, "k m"],
    fitted: Bool[Tensor, "k m"] | None = None,
) -> tuple[Bool[Tensor, " k"], Bool[Tensor, "k m"]]:
    """For which patterns a few Newton steps of logistic regression find a separator.

    And which rows are on the wrong side in the end; after several steps of training, at best. Where
    some rows are not `fitted`, it is sought without them. No is no answer. First truncated steps in
    float32, for all patterns by common products; then exact ones for those that are left, whose
    margin is smaller. A separator is tested in float64.
    """
    design, bounded = _design(problem)
    drift = _design_drift(problem)
    fitted = judged if fitted is None else fitted
    if bounded:
        # The weight on the bias is positive where one more row, of the bias alone, is active.
        design = torch.cat(
            [design, torch.eye(design.shape[1], dtype=design.dtype, device=design.device)[-1:]]
        )
        judged, active, fitted = (
            torch.nn.functional.pad(mask, (0, 1), value=True) for mask in (judged, active, fitted)
        )
        drift = None if drift is None else torch.nn.functional.pad(drift, (0, 0, 0, 1))
    norms = design.norm(dim=1, keepdim=True)
    design = design / torch.where(norms > 0, norms, 1.0)
    basis, triangle = torch.linalg.qr(design)
    basis = basis * len(basis) ** 0.5
    tested = judged & (norms[:, 0] > 0)
    counts = (tested & fitted).to(basis)
    target = active.to(basis)
    found = torch.zeros(len(judged), dtype=torch.bool, device=judged.device)
    wrong = torch.zeros_like(judged)
    if not bool((triangle.diagonal().abs() > 0).all()):
        return found, wrong[:, : len(problem.sparse)]
    if drift is not None:
        drift = drift / torch.where(norms > 0, norms, 1.0) * len(basis) ** 0.5
        drift = torch.linalg.solve_triangular(triangle, drift, upper=True, left=False)
    weights = ((2 * target - 1) * counts) @ basis * (2.0 / len(basis))
    for step in range(QUICK_STEPS + EXACT_STEPS):
        going = torch.nonzero(~found)[:, 0]
        if not len(going):
            break
        margin = (2 * target[going] - 1) * (weights[going] @ basis.T)
        certain = settled(margin, None if drift is None else weights[going] @ drift.T)
        margin = torch.where(tested[going] & certain, margin, torch.inf)
        against = margin <= 0
        if drift is not None and step:
            # Exact steps may diverge where no separator ends them.
            worse = against.sum(1) >= wrong[going].sum(1)
            against = torch.where(worse[:, None], wrong[going], against)
        wrong[going] = against
        separates = margin.amin(1) > SMALLEST_MARGIN * weights[going].norm(dim=1)
        found[going[separates]] = True
        going = going[~separates]
        quick = step < QUICK_STEPS
        dtype = torch.float32 if quick else torch.float64
        weights[going] = newton_step(
            basis.to(dtype),
            weights[going].to(dtype),
            target[going].to(dtype),
            ridge=QUICK_RIDGE if quick else EXACT_RIDGE,
            curvature_floor=CURVATURE_FLOOR,
            judged=counts[going].to(dtype),
            exact=not quick,
        ).to(basis)
    return found, wrong[:, : len(problem.sparse)]


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
