"""Every tolerance of the linear-layer pipeline: its name, its reason, and how it scales.

All are multiples of two measured quantities: the rounding of float64, in which every decision is
taken, and the noise that the observed gradient itself carries (its own dtype's rounding, or more),
measured from what its leading singular values leave over.
"""

from __future__ import annotations

import torch

FLOAT64_EPS = torch.finfo(torch.float64).eps

# Two neighbouring singular values this far apart are a gap. Within a spectrum of signal or of
# noise neighbours differ by a few per cent; a float32 gradient's gap is seldom below 1e3.
GAP_RATIO = 10.0

# A singular value below this many roundings of the largest one is rounding of the float64 SVD.
RANK_ROUNDINGS = 64.0

# Rounding of the observed entries themselves is independent from entry to entry, so that its
# spectral norm is that of its largest row and column; sums that cancel lose a few digits more.
ENTRY_ROUNDINGS = 16.0

# An entry vanishes when it lies within so many standard deviations of its own error. Rounding
# errors of one row share its scale but are heavier-tailed than a Gaussian.
ZERO_SIGMAS = 12.0

# An entry counts as non-zero only beyond so many zero tolerances; in between it says nothing.
# Rounding errors have no sharp largest value, and one misjudged entry would refuse a true record.
ACTIVE_TOLERANCES = 8.0

# Roundings of the float64 arithmetic of the pipeline itself (SVD, solves) within which an entry
# vanishes.
ZERO_ROUNDINGS = 64.0

# A row says something about a direction only if a non-zero entry would stand clear of the zero
# tolerance: chance zeros per row stay below about 0.8 times this.
INFORMATIVE_RATIO = 0.01

# Zeros a direction must have beyond the (b - 1) that any kernel gets for free. With at most one
# chance zero expected per hundred rows, six are a coincidence of 1e-9 or less at m = 200.
SURPLUS_ZEROS = 6

# Exact directions closer than this (1 - |cos|) are one: null vectors of the same rows agree to
# rounding times a condition number, an angle below 1e-6.
DUPLICATE_COSINE = 1e-12

# A direction adds to the rank of a set if its residual on the set's span is above this; true
# directions of near-duplicate records are close, but not to rounding.
RANK_RESIDUAL = 1e-7

# A pre-activation is judged only if it lies so many error bars from zero.
SIGN_SIGMAS = 30.0

# Relative float64 error granted to pre-activations besides the noise.
SIGN_RELATIVE = 1e-10

# Largest predicted error of a record, relative to its root mean square, at which it may be called
# recovered; the prediction itself is always reported.
RECORD_RELATIVE_ERROR = 1e-2

# Slack on "the residual is what the noise alone leaves".
RESIDUAL_FACTOR = 10.0

# A gradient recomputed by another order of the same sums, through several layers, differs by so
# many roundings of the dtype it was observed in; never more than a hundredth is excused.
GRADIENT_ROUNDINGS = 1e3
GRADIENT_RELATIVE_LIMIT = 1e-2

# A chance this small (as a power of ten) that a wrong record's pattern fits is no chance.
CHANCE_LOG10 = -9.0

# Equations beyond the unknowns that a single record's gradient must satisfy to be one record's.
SINGLE_RECORD_ROWS = 8

# How close to whole the ratios of records' weights must be to count copies.
COPIES_TOLERANCE = 1e-3
LARGEST_COPIES = 64


def rounding_floor(
    dtype: torch.dtype, largest: float, largest_row: float, largest_column: float
) -> float:
    """The largest singular value that rounding alone explains.

    The observed dtype rounds every entry by itself: a matrix of such errors has a spectral norm of
    about its largest row's norm plus its largest column's (Latala 2005), each a rounding times
    the norm of the gradient's own row or column. That is far below a rounding of the largest
    singular value, which decides at 16 bits, where the latter would hide the batch. Float64
    arithmetic adds its own.

    Args:
        dtype: The floating-point type in which the gradient was observed.
        largest: The largest singular value.
        largest_row: Largest Euclidean norm of a row of the gradient.
        largest_column: The same of a column.

    Example:
        >>> rounding_floor(torch.float64, 1.0, 0.2, 0.1) < 1e-13
        True
        >>> rounding_floor(torch.bfloat16, 1.0, 0.2, 0.1) < 0.05
        True
    """
    entries = ENTRY_ROUNDINGS * torch.finfo(dtype).eps * (largest_row + largest_column)
    return max(entries, 2 * RANK_ROUNDINGS * FLOAT64_EPS * largest)
