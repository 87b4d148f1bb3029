"""SPEAR's probabilities (arXiv 2403.03945, sections 4.1 and 5.2), in log space where it matters."""

from __future__ import annotations

import math

from scipy.stats import binom

from gradaudit.errors import InputError

# Tao and Vu's base in the lower bound on a random 0/1 matrix being non-singular (Lemma 5.1).
SINGULARITY_BASE = 0.939


def hit_probability(batch_size: int) -> float:
    r"""Lower bound on the probability that a random submatrix yields some true direction.

    Lemma 5.1: with entries zero independently with probability 1/2,
    :math:`q \ge \frac{b}{2^{b-1}} (1 - 0.939^{b-1})`. The second factor makes it pessimistic by
    up to 16 times at small b (b = 2), by 1.6 times at b = 16. For b = 1 every submatrix is empty
    and hits: 1.

    Args:
        batch_size: b, at least 1.

    Raises:
        InputError: ``batch_size`` is below 1.

    Example:
        >>> round(hit_probability(10), 5)
        0.00845
    """
    _check_positive("batch_size", batch_size)
    if batch_size == 1:
        return 1.0
    rows = batch_size - 1
    singular = math.log1p(-math.exp(rows * math.log(SINGULARITY_BASE)))
    return math.exp(math.log(batch_size) - rows * math.log(2) + singular)


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
    upper bound for wide networks; narrow ones need more (section 6.2).

    Args:
        batch_size: b, at least 1.
        hit_rate: q, if it was measured; else Lemma 5.1's bound.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> f"{expected_submatrices(16):.2g}"
        '1.8e+05'
    """
    rate = hit_probability(batch_size) if hit_rate is None else hit_rate
    if not 0 < rate <= 1:
        raise InputError("hit_rate", repr(hit_rate), "a probability above 0 and at most 1")
    return coupon_collector(batch_size) / rate


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
    return float(binom.cdf(math.floor(width * threshold * (1 + 1e-12)), width, 0.5))


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
    # ppf(p) is the smallest k with P[X <= k] >= p, so that P[X < ppf(p)] < p.
    return float(binom.ppf(false_rejection, width, 0.5)) / width


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise InputError(name, str(value), "a whole number of at least 1")
