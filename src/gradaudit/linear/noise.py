"""What the leading singular values leave: its size, and whether it is noise at all."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.blocks import BLOCK_ENTRIES, Lines, measure_lines
from gradaudit.linear.remainder import Remainder

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
# Rows and columns are brought to equal strength in turns, so often.
BALANCING_ROUNDS = 3


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
        if coarser and _holds(gradient, candidate):
            return candidate
    return observed


def _holds(matrix: Tensor, dtype: torch.dtype) -> bool:
    """Whether a type holds every entry; the first block that does not ends it."""
    step = max(1, BLOCK_ENTRIES // max(1, matrix[:1].numel()))
    return all(
        bool((block.to(dtype).to(block.dtype) == block).all())
        for block in torch.split(matrix, step)
    )


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
    lines = measure_lines(matrix)
    left = Remainder.formed(rest)
    return line_noise(lines.row_energies, left.rows, matrix.shape[1], rank, dtype)


def line_noise(
    energies: Float[Tensor, " m"],
    rest: Float[Tensor, " m"],
    entries: int,
    rank: int,
    dtype: torch.dtype,
) -> Float[Tensor, " m"]:
    """The same from squared norms, of rows or of columns.

    Args:
        energies: Of the gradient's rows.
        rest: Of the same rows of what the leading rank leaves.
        entries: In a row.
        rank: That rank.
        dtype: In which the gradient was observed.

    Example:
        >>> ones = torch.ones(3, dtype=torch.float64)
        >>> bool((line_noise(4 * ones, 0 * ones, 4, 1, torch.float32) > 0).all())
        True
    """
    # The rank removed takes its share of the noise with it.
    freedom = entries - rank
    whole = (len(energies) - rank) * freedom
    size = energies / entries
    relative = (ENTRY_ROUNDING * torch.finfo(dtype).eps) ** 2
    if whole > 0:
        measured = rest.sum() / whole / size.mean()
        relative = max(relative, float(measured))
    prior = relative * size
    return ((rest + PRIOR_ENTRIES * prior) / (freedom + PRIOR_ENTRIES)).sqrt()


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
    return is_independent(measure_lines(matrix), Remainder.formed(rest), rank)


def is_independent(lines: Lines, rest: Remainder, rank: int) -> bool:
    """The same of a remainder that need not be formed.

    Args:
        lines: Of the gradient.
        rest: The gradient less its leading rank.
        rank: That rank.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> noise = torch.randn(40, 30, generator=g, dtype=torch.float64)
        >>> is_independent(measure_lines(noise), Remainder.formed(noise), 0)
        True
    """
    live_rows, live_columns = lines.live_rows, lines.live_columns
    by_row, by_column = rest.rows[live_rows], rest.columns[live_columns]
    rows, columns = len(by_row), len(by_column)
    if min(rows, columns) <= rank or not bool(by_row.any()):
        return True
    level = (by_row.sum() / (rows * columns)).sqrt()
    edge = ((rows - rank) ** 0.5 + (columns - rank) ** 0.5) / (
        (rows - rank) * (columns - rank) / (rows * columns)
    ) ** 0.5
    uniform = max(_spread(by_row, columns), _spread(by_column, rows))
    if uniform <= UNIFORM_SPREAD and rest.spectral_norm() <= WHITE_EDGE * level * edge:
        return True
    row_sizes, column_sizes = lines.row_energies[live_rows], lines.column_energies[live_columns]
    proportional = max(
        _spread(by_row / row_sizes, columns), _spread(by_column / column_sizes, rows)
    )
    size = (row_sizes.sum() / (rows * columns)).sqrt()
    if proportional <= PROPORTIONAL_SPREAD and level <= PROPORTIONAL_LEVEL * size:
        return True
    if min(rows, columns) < BALANCED_SIDE:
        return False
    balanced = rest.scaled(live_rows.to(by_row), live_columns.to(by_row))
    for _ in range(BALANCING_ROUNDS):
        balanced = balanced.scaled(
            _inverse_root(balanced.rows / columns), torch.ones_like(balanced.columns)
        )
        balanced = balanced.scaled(
            torch.ones_like(balanced.rows), _inverse_root(balanced.columns / rows)
        )
    return balanced.spectral_norm() <= BALANCED_EDGE * (rows**0.5 + columns**0.5)


def _inverse_root(energies: Float[Tensor, " k"]) -> Float[Tensor, " k"]:
    """What scales lines to unit strength; 1 for those without any."""
    return torch.where(energies > 0, energies, 1.0).rsqrt()


def _spread(energies: Float[Tensor, " k"], terms: int) -> float:
    """Variance of energies relative to their mean, over a chi-square's of so many terms."""
    return float(energies.var(correction=0) / energies.mean().square() * terms / 2)
