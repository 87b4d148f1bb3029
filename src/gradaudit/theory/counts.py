"""Binomial and Poisson counts, by special functions alone.

`scipy.stats` has them too, and takes as long to import as the rest of this package together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, bdtrc, bdtrik, gammaln, pdtr, pdtrik


def binomial_at_most(most: int, trials: int, probability: float = 0.5) -> float:
    r"""Probability of at most so many successes.

    Args:
        most: Successes.
        trials: Independent trials, at least 0.
        probability: Of success in each, from 0 to 1.

    Example:
        >>> binomial_at_most(1, 2)
        0.75
    """
    if most < 0:
        return 0.0
    return 1.0 if most >= trials else float(bdtr(most, trials, probability))


def binomial_at_least(least: int, trials: int, probability: float = 0.5) -> float:
    """Probability of at least so many successes, exact where it is tiny.

    Args:
        least: Successes.
        trials: Independent trials, at least 0.
        probability: Of success in each, from 0 to 1.

    Example:
        >>> binomial_at_least(2, 2), binomial_at_least(3, 2)
        (0.25, 0.0)
    """
    if least <= 0:
        return 1.0
    return 0.0 if least > trials else float(bdtrc(least - 1, trials, probability))


def binomial_quantile(level: float, trials: int) -> int:
    """The least number of heads of fair coins that is not exceeded with a probability of a level.

    Args:
        level: Above 0 and below 1.
        trials: Coins, at least 1.

    Example:
        >>> binomial_quantile(0.5, 10), binomial_quantile(0.01, 10)
        (5, 1)
    """
    # Zero heads have no preimage where they alone reach the level.
    if binomial_at_most(0, trials) >= level:
        return 0
    near = int(np.ceil(bdtrik(level, trials, 0.5)))
    while near > 0 and binomial_at_most(near - 1, trials) >= level:
        near -= 1
    while binomial_at_most(near, trials) < level:
        near += 1
    return near


def log_heads(heads: ArrayLike, trials: int) -> NDArray[np.float64]:
    """Natural logarithm of the probability of so many heads of fair coins.

    Args:
        heads: Whole numbers, at least 0; more than the coins have no chance, -inf.
        trials: Coins, at least 0.

    Example:
        >>> np.exp(log_heads([0, 1, 2, 3], 2)).tolist()
        [0.25, 0.5, 0.25, 0.0]
    """
    count = np.asarray(heads, dtype=np.float64)
    inside = np.minimum(count, trials)
    ways = gammaln(trials + 1) - gammaln(inside + 1) - gammaln(trials - inside + 1)
    return np.where(count <= trials, ways - trials * np.log(2), -np.inf)


def poisson_allowed(rate: float, mean: ArrayLike) -> NDArray[np.int64]:
    """The least count that a Poisson one exceeds with a probability of at most the rate.

    Args:
        rate: Above 0 and below 1.
        mean: Expected counts, at least 0.

    Example:
        >>> poisson_allowed(0.05, [0.0, 1.0]).tolist()
        [0, 3]
    """
    expected, level = np.atleast_1d(np.asarray(mean, dtype=np.float64)), 1.0 - rate
    positive = np.maximum(expected, np.finfo(np.float64).tiny)
    near = np.ceil(np.nan_to_num(pdtrik(level, positive), nan=0.0))
    below = np.maximum(near - 1, 0)
    least = np.where(pdtr(below, positive) >= level, below, near)
    return least.astype(np.int64)
