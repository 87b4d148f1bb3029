"""The half-space test: one record's support is a side of a hyperplane; a mixture's is not."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import linprog
from torch import Tensor

from gradaudit.linear.problem import Problem, Setting

# The linear program's own feasibility tolerance is 1e-7; a margin (of unit rows, with coefficients
# of at most 1) must exceed it to mean anything.
SMALLEST_MARGIN = 1e-6


def plausible(problem: Problem, direction: Float[Tensor, " b"]) -> bool:
    r"""Whether a direction can belong to a single record, by the ReLU that made it sparse.

    Sparse gradient: neuron i is active for a record x = V c exactly where
    :math:`(W V)_i c + \beta_i > 0`, so that the support of a true column of dL/dZ must be linearly
    separable in the rows of [W V, bias], with a positive weight on the bias (the record's unknown
    scale). The support of a mixture of m rows is so with vanishing probability once m > 2b (Cover
    1965). Decided by a linear program that maximises the margin.
    Sparse input: the input of an inner layer is the output of a ReLU, so that all entries of a
    true column have one sign.

    Args:
        problem: The layer.
        direction: An exact direction.

    Source:
        Ours; ``Known weaknesses`` of the half-space search, after Cover's function-counting
        theorem. Separability of last-layer gradients: arXiv 2111.00556.
    """
    vanishing, informative = problem.vanishing(direction[None])
    values = problem.sparse @ direction
    if problem.setting is Setting.SPARSE_INPUT:
        clear = values[informative[0] & ~vanishing[0]]
        return bool((clear > 0).all()) or bool((clear < 0).all())
    rows = informative[0] & problem.live
    active = ~vanishing[0][rows]
    return separable(problem, rows, active)


def separable(problem: Problem, rows: Tensor, active: Tensor) -> bool:
    """Whether some record activates exactly the given neurons among the given rows.

    Args:
        problem: The layer.
        rows: Boolean mask of the neurons that are judged.
        active: For each of those, whether it is active.
    """
    design = problem.preactivation_map[rows]
    bias = problem.layer.bias
    if bias is not None:
        design = torch.cat([design, bias[rows][:, None]], dim=1)
    # A neuron without weights in the record space is constant and separates nothing.
    norms = design.norm(dim=1)
    design, active = design[norms > 0] / norms[norms > 0][:, None], active[norms > 0]
    signed = (design * torch.where(active, 1.0, -1.0)[:, None]).cpu().numpy()
    count, size = signed.shape
    if not count:
        return False
    if bias is None:
        return _margin(signed, free=size) > SMALLEST_MARGIN or (
            _margin(-signed, free=size) > SMALLEST_MARGIN
        )
    return _margin(signed, free=size - 1) > SMALLEST_MARGIN


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
