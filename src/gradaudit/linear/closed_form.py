"""One record in closed form: every row of the weight gradient is a multiple of it."""

from __future__ import annotations

import time

from gradaudit.linear.disaggregate import disaggregate
from gradaudit.linear.invert import Inversion
from gradaudit.linear.problem import Problem


def invert_single(problem: Problem) -> Inversion:
    r"""Read a single record off the gradient, whatever the activation.

    At batch size 1, :math:`\partial L/\partial W = g x^T` and :math:`\partial L/\partial b = g`, so
    that x is any row of the one over the same entry of the other. The disaggregation matrix is a
    number, and the pipeline's scaling step computes that ratio as a least-squares fit over all
    rows, which is the most accurate of them.

    Args:
        problem: A layer whose gradient has rank 1.

    Source:
        Phong et al., 2018; SPEAR (arXiv 2403.03945) with b = 1.
    """
    started = time.perf_counter()
    direction = problem.sparse.new_ones(1, 1)
    batch = disaggregate(problem, direction)
    return Inversion(
        batch,
        directions_found=1,
        matching=None,
        stopped="",
        counters={},
        seconds={"disaggregate": time.perf_counter() - started},
    )
