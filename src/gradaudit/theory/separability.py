"""How often chance alone looks like a half-space: Cover's function-counting theorem."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from gradaudit.errors import InputError
from gradaudit.theory.counts import log_heads


def log10_separable_by_chance(points: int, dimension: int, positive: int | None = None) -> float:
    r"""Logarithm of the fraction of all two-colourings of points that a hyperplane makes.

    Of the :math:`2^N` ways to colour N points in general position in :math:`R^d`,
    :math:`2 \sum_{k=0}^{d-1} \binom{N-1}{k}` are made by a hyperplane through the origin, so that
    the fraction is :math:`P[\mathrm{Bin}(N-1, 1/2) \le d-1]`: 1 up to N = d, 1/2 at N = 2d,
    vanishing fast beyond. An affine hyperplane in b dimensions counts as d = b + 1. Of the
    :math:`\binom{N}{k}` colourings with k points of one colour no more than all those can be, which
    says nothing while k is small: almost any few points can be cut off.

    Args:
        points: N, at least 0.
        dimension: d, at least 1.
        positive: k, from 0 to N, to compare with the colourings that have so many points of one
            colour only; None for all colourings.

    Raises:
        InputError: An argument is out of range.

    Source:
        Cover, Geometrical and statistical properties of systems of linear inequalities, 1965.

    Example:
        >>> round(10 ** log10_separable_by_chance(20, 10), 3)
        0.5
    """
    if points < 0 or dimension < 1:
        raise InputError("points, dimension", f"{points}, {dimension}", "N >= 0 and d >= 1")
    if positive is not None and not 0 <= positive <= points:
        raise InputError("positive", str(positive), f"0 to {points}")
    if points <= dimension:
        return 0.0
    # SciPy's logcdf is the logarithm of a sum that underflows; that of the terms does not.
    terms = log_heads(np.arange(dimension), points - 1)
    fraction = float(logsumexp(terms))
    if positive is not None:
        # From a fraction of all colourings to one of those with k of one colour.
        fraction -= float(log_heads(positive, points))
    return min(fraction / math.log(10), 0.0)
