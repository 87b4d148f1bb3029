"""SPEAR's probabilities (arXiv 2403.03945, sections 4.1 and 5.2), in log space where it matters."""

from __future__ import annotations

import math
from typing import Literal, get_args

from gradaudit.errors import InputError
from gradaudit.theory.counts import binomial_at_most, binomial_quantile

# Tao and Vu's base in the lower bound on a random 0/1 matrix being non-singular (Lemma 5.1).
SINGULARITY_BASE = 0.939

# Non-singular 0/1 matrices of size 0 to 8 (OEIS A055165).
NONSINGULAR_COUNTS = (
    1,
    1,
    6,
    174,
    22_560,
    12_514_320,
    28_836_612_000,
    270_345_669_985_440,
    10_160_459_763_342_013_440,
)

RankFactor = Literal["bound", "approximate", "exact"]


def hit_probability(batch_size: int, rank: RankFactor = "bound") -> float:
    r"""Probability that a random submatrix yields some true direction.

    Lemma 5.1: with entries zero independently with probability 1/2,
    :math:`q = \frac{b}{2^{b-1}} P[b-1]`, :math:`P` as `nonsingular_probability` has it. ``"bound"``
    is the paper's, pessimistic by up to 8 times at small b (b = 2), by 1.6 times at b = 16. For
    b = 1 every submatrix is empty and hits: 1. Below 1e-308, from b of about 1030 on: 0.0; take
    `log_hit_probability` there.

    Args:
        batch_size: b, at least 1.
        rank: As `nonsingular_probability` takes it.

    Raises:
        InputError: An argument is out of range.

    Source:
        SPEAR, arXiv 2403.03945, Lemma 5.1.

    Example:
        >>> round(hit_probability(10), 5)
        0.00845
    """
    return math.exp(log_hit_probability(batch_size, rank))


def log_hit_probability(batch_size: int, rank: RankFactor = "bound") -> float:
    """Natural logarithm of `hit_probability`, for batches of any size.

    Args:
        batch_size: b, at least 1.
        rank: As `nonsingular_probability` takes it.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> round(log_hit_probability(5000))
        -3457
    """
    _check_positive("batch_size", batch_size)
    rows = batch_size - 1
    nonsingular = math.log(nonsingular_probability(rows, rank))
    return math.log(batch_size) - rows * math.log(2) + nonsingular


def nonsingular_probability(size: int, rank: RankFactor = "bound") -> float:
    r"""Probability that a random 0/1 matrix is non-singular.

    ``"bound"`` is :math:`1 - 0.939^n` (Tao and Vu), proven for large n and below the exact value
    at every n that was counted; ``"approximate"`` is :math:`1 - 2^{-n}`, the limiting rate
    (Tikhomirov), which errs high: 0.996 for 0.551 at n = 8; ``"exact"`` is the count of all
    matrices up to 8 x 8. Where the magnitudes of the nonzero entries vary, as in a gradient, more
    matrices are non-singular than by their 0/1 pattern, so that ``"exact"`` too errs low.

    Args:
        size: n, rows and columns, at least 0. An empty matrix is non-singular.
        rank: ``"bound"``, ``"approximate"`` or ``"exact"``.

    Raises:
        InputError: An argument is out of range; ``"exact"`` beyond n = 8.

    Source:
        SPEAR, arXiv 2403.03945, Lemma 5.1; OEIS A055165 for the counts.

    Example:
        >>> nonsingular_probability(2, "exact")
        0.375
    """
    if rank not in get_args(RankFactor):
        raise InputError("rank", repr(rank), " or ".join(get_args(RankFactor)))
    if size < 0:
        raise InputError("size", str(size), "a whole number from 0")
    if size == 0:
        return 1.0
    if rank == "exact":
        if size >= len(NONSINGULAR_COUNTS):
            raise InputError("size", str(size), f"at most {len(NONSINGULAR_COUNTS) - 1} if exact")
        return math.ldexp(NONSINGULAR_COUNTS[size], -(size**2))
    base = SINGULARITY_BASE if rank == "bound" else 0.5
    return -math.expm1(size * math.log(base))


def coupon_collector(batch_size: int, already_found: int = 0) -> float:
    r"""Expected hits until every direction was hit: :math:`\sum_{k=f}^{b-1} \frac{b}{b-k}`.

    Args:
        batch_size: b, at least 1.
        already_found: f, distinct directions already found, from 0 to b.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> coupon_collector(2)
        3.0
    """
    _check_positive("batch_size", batch_size)
    if not 0 <= already_found <= batch_size:
        raise InputError("already_found", str(already_found), f"0 to {batch_size}")
    return math.fsum(batch_size / (batch_size - k) for k in range(already_found, batch_size))


def expected_submatrices(batch_size: int, hit_rate: float | None = None) -> float:
    r"""Expected number of submatrices until all directions are found.

    Lemma 5.2: :math:`n^*_{total} = b H_b / q`. With the lemma's own lower bound on q this is an
    upper bound for wide networks; narrow ones need more (section 6.2). Where it overflows, from b
    of about 1000 on: inf.

    Args:
        batch_size: b, at least 1.
        hit_rate: q, if it was measured; else Lemma 5.1's bound.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> f"{expected_submatrices(16):.2g}"
        '1.8e+05'
    """
    if hit_rate is not None and not 0 < hit_rate <= 1:
        raise InputError("hit_rate", repr(hit_rate), "a probability above 0 and at most 1")
    hits = coupon_collector(batch_size)
    rate = hit_probability(batch_size) if hit_rate is None else hit_rate
    return hits / rate if rate > 0 else math.inf


def false_rejection_rate(width: int, threshold: float) -> float:
    r"""Probability that a true column, zero with probability 1/2 per entry, misses the threshold.

    Section 4.1: :math:`p_{fr}(\tau, m) = 2^{-m} \sum_{i=0}^{\lfloor m \tau \rfloor} \binom{m}{i}`.

    Args:
        width: m, at least 1.
        threshold: :math:`\tau`, a fraction from 0 to 1.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> f"{false_rejection_rate(400, 0.395):.2g}"
        '1.6e-05'
    """
    _check_positive("width", width)
    if not 0 <= threshold <= 1:
        raise InputError("threshold", repr(threshold), "a fraction from 0 to 1")
    # A threshold of k / m means k, also where the quotient was rounded down.
    return binomial_at_most(math.floor(width * threshold * (1 + 1e-12)), width)


def sparsity_threshold(width: int, false_rejection: float = 1e-5) -> float:
    r"""The largest fraction of zeros to ask for at a given false-rejection rate.

    The largest k with :math:`P[\mathrm{Bin}(m, 1/2) < k] \le p_{fr}`, over m: a true column has
    fewer than k zeros with probability at most :math:`p_{fr}`. The paper's example is
    tau = 0.395 at m = 400 and 1e-5, where 158 zeros are just enough.

    Args:
        width: m, at least 1.
        false_rejection: :math:`p_{fr}`, above 0 and below 1.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> sparsity_threshold(400)
        0.395
    """
    _check_positive("width", width)
    if not 0 < false_rejection < 1:
        raise InputError("false_rejection", repr(false_rejection), "between 0 and 1")
    # The smallest k with P[X <= k] >= p, so that P[X < k] < p.
    return binomial_quantile(false_rejection, width) / width


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise InputError(name, str(value), "a whole number of at least 1")
