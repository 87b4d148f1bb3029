"""How many submatrices SPEAR needs to be nearly sure, and how often all of them fail it.

SPEAR, arXiv 2403.03945, Lemmas 5.3 and A.1.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from scipy.special import gammaln, logsumexp, ndtri

from gradaudit.errors import InputError
from gradaudit.theory.counts import log_heads
from gradaudit.theory.spear import SINGULARITY_BASE, log_hit_probability

Bound = Literal["upper", "approximate"]

# What a random 0/1 matrix's chance of being singular falls by with every row, as size grows
# (Tikhomirov 2020).
LIMITING_BASE = 0.5

# Above this a double's exponential overflows; a base below 1 to such a power is 0 long before.
LARGEST_EXPONENT = 700.0


def submatrices_for_success(
    batch_size: int, failure_probability: float, false_rejection: float = 0.0
) -> float:
    r"""Submatrices after which all directions are found, except with a given probability.

    Lemma A.1, as its proof derives it: :math:`c = b \log(2b/p^*)` hits suffice to see every
    direction, and n is the root of :math:`nq - c = z \sqrt{nq(1-q)}` with
    :math:`\Phi(-z) = p^*/2` and :math:`p^* = p - 1 + (1 - p_{fr})^b`. The lemma's own line has p in
    place of :math:`p^*` and its inequality the other way round. Errs high: two union bounds,
    Lemma 5.1's bound on q, and a normal tail that is heavier than the binomial's. Beyond a batch
    of about 1000 it overflows: inf.

    Args:
        batch_size: b, at least 1.
        failure_probability: p, above 0 and below 1.
        false_rejection: :math:`p_{fr}`, from 0 to below 1; the default leaves out the filter,
            which the paper's example cannot have used: at :math:`p_{fr} = 10^{-5}` no number of
            samples reaches a p of :math:`10^{-8}`.

    Raises:
        InputError: An argument is out of range, or p cannot be reached: the filter alone rejects a
            direction more often.

    Source:
        SPEAR, arXiv 2403.03945, Lemma A.1.

    Example:
        >>> f"{submatrices_for_success(10, 1e-8):.0e}"
        '4e+04'
    """
    _check(batch_size, false_rejection)
    if not 0 < failure_probability < 1:
        raise InputError("failure_probability", repr(failure_probability), "between 0 and 1")
    left = failure_probability - _any_rejected(batch_size, false_rejection)
    if left <= 0:
        raise InputError(
            "failure_probability",
            repr(failure_probability),
            f"more than the filter rejects, {failure_probability - left:.2g}",
        )
    if batch_size == 1:
        return 1.0
    log_rate = log_hit_probability(batch_size)
    hits = batch_size * math.log(2 * batch_size / left)
    deviation = -float(ndtri(left / 2)) * math.sqrt(-math.expm1(log_rate))
    root = (deviation + math.sqrt(deviation**2 + 4 * hits)) / 2
    log_samples = 2 * math.log(root) - log_rate
    return math.exp(log_samples) if log_samples < LARGEST_EXPONENT else math.inf


def failure_probability(
    batch_size: int,
    width: int,
    bound: Bound = "upper",
    false_rejection: float = 1e-5,
) -> float:
    r"""Probability that SPEAR misses a direction though it samples every submatrix.

    Lemma 5.3. A direction is missed with probability
    :math:`u = P[K < b-1] + E[\beta^{(b-1)\binom{K}{b-1}}; K \ge b-1]`,
    :math:`K \sim \mathrm{Bin}(m, 1/2)`. ``"upper"`` is :math:`b u + 1 - (1-p_{fr})^b` with
    :math:`\beta = 0.939`, at most 1; ``"approximate"`` is
    :math:`1 - (1-u)^b + 1 - (1-p_{fr})^b` with :math:`\beta = 1/2`, and errs low at small b. Both
    multiply the submatrices' chances as if they did not share rows, so that ``"upper"`` is no
    proven bound: at b = 4 and m = 25 it says 0.0025, and 21 of 2,000 batches failed. At b = 1,
    where the printed formula says that an empty matrix is singular, nothing but the filter can
    fail. Below 1e-308: 0.0.

    Args:
        batch_size: b, at least 1. From m + 2 on no submatrix has enough rows: 1.
        width: m, at least 1.
        bound: ``"upper"`` or ``"approximate"``.
        false_rejection: :math:`p_{fr}`, from 0 to 1.

    Raises:
        InputError: An argument is out of range.

    Source:
        SPEAR, arXiv 2403.03945, Lemma 5.3.

    Example:
        >>> round(failure_probability(10, 40, "approximate"), 4)
        0.001
    """
    _check(batch_size, false_rejection)
    if width < 1:
        raise InputError("width", str(width), "a whole number of at least 1")
    if bound not in get_args(Bound):
        raise InputError("bound", repr(bound), " or ".join(get_args(Bound)))
    rejected = _any_rejected(batch_size, false_rejection)
    if batch_size == 1:
        return rejected
    missed = _missed(batch_size - 1, width, SINGULARITY_BASE if bound == "upper" else LIMITING_BASE)
    if bound == "upper":
        return min(1.0, batch_size * missed + rejected)
    some = -math.expm1(batch_size * math.log1p(-missed)) if missed < 1 else 1.0
    return min(1.0, some + rejected)


def _missed(rows: int, width: int, base: float) -> float:
    """The chance that one direction has no non-singular submatrix among all."""
    zeros = np.arange(width + 1)
    enough = zeros[zeros >= rows]
    submatrices = gammaln(enough + 1) - gammaln(rows + 1) - gammaln(enough - rows + 1)
    exponent = rows * np.exp(np.minimum(submatrices, LARGEST_EXPONENT - math.log(rows)))
    terms = log_heads(zeros, width)
    terms[zeros >= rows] += math.log(base) * exponent
    return min(1.0, math.exp(float(logsumexp(terms))))


def _any_rejected(batch_size: int, false_rejection: float) -> float:
    if false_rejection == 1:
        return 1.0
    return -math.expm1(batch_size * math.log1p(-false_rejection))


def _check(batch_size: int, false_rejection: float) -> None:
    if batch_size < 1:
        raise InputError("batch_size", str(batch_size), "a whole number of at least 1")
    if not 0 <= false_rejection <= 1:
        raise InputError("false_rejection", repr(false_rejection), "a probability")
