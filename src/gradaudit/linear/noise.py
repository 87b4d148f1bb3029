"""What the leading singular values leave: its size, and whether it is noise at all."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# Root mean square of the rounding of entries, relative to their size and the dtype's eps: uniform
# within half a step, a step being between eps / 2 and eps of the value.
ENTRY_ROUNDING = 0.2
# How many entries' worth the noise typical of the whole gradient counts in each row's estimate.
# Where a row leaves only one or two degrees of freedom, its own estimate is next to nothing.
PRIOR_ENTRIES = 4.0
# Largest singular value of independent noise over sigma * (sqrt m + sqrt n): 0.9 to 1.03 as a rule,
# 1.13 for noise with heavy tails; 1.2 to 2.5 for a remainder made of records.
WHITE_EDGE = 1.2
BALANCED_EDGE = 1.1
BALANCED_SIDE = 64
# Variance of the energies of rows (or columns), over that of Gaussian noise of equal strength:
# 2.5 for Laplace noise, 8 to hundreds for records. In proportion to the entries: up to 10 for
# rounding, 200 and more for records.
UNIFORM_SPREAD = 4.0
PROPORTIONAL_SPREAD = 20.0
# The coarsest rounding that explains noise in proportion to the entries: bfloat16's, thrice.
PROPORTIONAL_LEVEL = 2.0**-7


def effective_dtype(gradient: Float[Tensor, "m n"]) -> torch.dtype:
    """The coarsest floating-point type that holds every entry exactly.

    A gradient computed in bfloat16 and stored as float32, or in float32 and stored as float64, has
    the errors of the type it was computed in.

    Args:
        gradient: As observed.

    Example:
        >>> effective_dtype(torch.tensor([[0.1, 0.7]]).bfloat16().double())
        torch.bfloat16
    """
    observed = gradient.dtype
    for candidate in (torch.bfloat16, torch.float16, torch.float32):
        coarser = torch.finfo(candidate).eps > torch.finfo(observed).eps
        if coarser and bool((gradient.to(candidate).to(observed) == gradient).all()):
            return candidate
    return observed


def row_noise(
    matrix: Float[Tensor, "m n"], rest: Float[Tensor, "m n"], rank: int, dtype: torch.dtype
) -> Float[Tensor, " m"]:
    """Standard deviation of an entry's error in each row, from what the leading rank leaves.

    Args:
        matrix: The gradient.
        rest: The gradient less its leading rank.
        rank: That rank.
        dtype: In which the gradient was observed; its rounding is the least there is.

    Example:
        >>> ones = torch.ones(3, 4, dtype=torch.float64)
        >>> bool((row_noise(ones, 0 * ones, 1, torch.float32) > 0).all())
        True
    """
    rows, columns = matrix.shape
    # The rank removed takes its share of the noise with it.
    freedom = columns - rank
    whole = (rows - rank) * freedom
    size = matrix.square().mean(1)
    relative = (ENTRY_ROUNDING * torch.finfo(dtype).eps) ** 2
    if whole > 0:
        measured = rest.square().sum() / whole / size.mean()
        relative = max(relative, float(measured))
    prior = relative * size
    return ((rest.square().sum(1) + PRIOR_ENTRIES * prior) / (freedom + PRIOR_ENTRIES)).sqrt()


def looks_independent(matrix: Float[Tensor, "m n"], rest: Float[Tensor, "m n"], rank: int) -> bool:
    """Whether what the leading rank leaves can be noise, independent from entry to entry.

    Records that resemble each other (features far from zero, say) leave a few large singular
    values and a tail of smaller ones, which is no noise: it must not make the batch look small.
    Three kinds of noise are believed: equally strong everywhere; in proportion to the entries, as
    low precision leaves; and, in large matrices, of any strength by row and column as long as
    nothing else structures it. Rows and columns that are zero throughout say nothing.

    Args:
        matrix: The gradient.
        rest: The gradient less its leading rank.
        rank: That rank.

    Source:
        Marchenko and Pastur's edge, 1967; the energies' spread is ours.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> noise = torch.randn(40, 30, generator=g, dtype=torch.float64)
        >>> column, row = torch.ones(40, 1).double(), torch.arange(30.0).double()[None]
        >>> looks_independent(column @ row + noise, noise, 1)
        True
        >>> looks_independent(column @ row + noise, noise * row, 1)
        False
    """
    live_rows, live_columns = (matrix != 0).any(1), (matrix != 0).any(0)
    matrix, rest = matrix[live_rows][:, live_columns], rest[live_rows][:, live_columns]
    rows, columns = rest.shape
    if min(rows, columns) <= rank or not bool(rest.any()):
        return True
    level = rest.square().mean().sqrt()
    edge = ((rows - rank) ** 0.5 + (columns - rank) ** 0.5) / (
        (rows - rank) * (columns - rank) / (rows * columns)
    ) ** 0.5
    uniform = max(_spread(rest.square().sum(1), columns), _spread(rest.square().sum(0), rows))
    if uniform <= UNIFORM_SPREAD and _norm(rest) <= WHITE_EDGE * level * edge:
        return True
    entries = matrix.square()
    by_row = rest.square().sum(1) / entries.sum(1)
    by_column = rest.square().sum(0) / entries.sum(0)
    proportional = max(_spread(by_row, columns), _spread(by_column, rows))
    if proportional <= PROPORTIONAL_SPREAD and level <= PROPORTIONAL_LEVEL * entries.mean().sqrt():
        return True
    if min(rows, columns) < BALANCED_SIDE:
        return False
    balanced = rest
    for _ in range(3):
        for axis in (1, 0):
            scale = balanced.square().mean(axis, keepdim=True).sqrt()
            balanced = balanced / torch.where(scale > 0, scale, 1.0)
    return _norm(balanced) <= BALANCED_EDGE * (rows**0.5 + columns**0.5)


def _spread(energies: Float[Tensor, " k"], terms: int) -> float:
    """Variance of energies relative to their mean, over a chi-square's of so many terms."""
    return float(energies.var(correction=0) / energies.mean().square() * terms / 2)


def _norm(matrix: Float[Tensor, "m n"]) -> float:
    return float(torch.linalg.matrix_norm(matrix, ord=2))
