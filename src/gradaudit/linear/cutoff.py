"""Whether a gradient was cut off below: its small entries set to zero, as pruning does."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.blocks import measure_lines, row_blocks

# Part of the entries, where row and column have others, that must be zero.
LEAST_ZEROS = 0.01
# Half of the other entries lie within so many times the least of them. Of a gradient that nobody
# cut, with hundreds of entries, the least are hundreds of times smaller than the median.
MEDIAN_RATIO = 20.0
# Magnitudes, each once, between the least one and twice it. Entries grow rarer with their size, so
# that as many lie below the least by chance: that none does has probability exp(-32).
LEAST_ABOVE = 32
# More than these are not sorted.
_ENOUGH = 1 << 16


@dataclass(frozen=True)
class Cutoff:
    """Where a gradient was cut off.

    Attributes:
        least: The least magnitude of an entry that is not zero.
        zeros: Share of zeros among the entries whose row and column have others.
    """

    least: float
    zeros: float


def find_cutoff(gradient: Float[Tensor, "m n"]) -> Cutoff | None:
    """The magnitude below which entries were set to zero, or None where none was.

    Entries of a gradient are spread continuously around zero. One with many zeros, with many
    different values just above some magnitude, and with none below it, was pruned to its largest
    entries. What is rounded to a few levels has few different values, and is not taken for it.

    Args:
        gradient: Of a layer's weights.

    Example:
        >>> entries = torch.randn(50, 40, generator=torch.Generator().manual_seed(0))
        >>> find_cutoff(entries) is None
        True
        >>> found = find_cutoff(entries * (entries.abs() > 0.5))
        >>> round(found.least, 2), round(found.zeros, 2)
        (0.5, 0.39)
    """
    lines = measure_lines(gradient)
    inside = int(lines.live_rows.sum()) * int(lines.live_columns.sum())
    nonzero, least = 0, torch.inf
    for _, block in row_blocks(gradient):
        size = block.abs()
        size = size[size > 0]
        nonzero += size.numel()
        least = min(least, float(size.min())) if size.numel() else least
    if inside - nonzero < max(LEAST_ZEROS * inside, 1):
        return None
    small, above = 0, gradient.new_zeros(0, dtype=torch.float64)
    for _, block in row_blocks(gradient):
        size = block.abs()
        small += int(((size > 0) & (size <= MEDIAN_RATIO * least)).sum())
        if len(above) < _ENOUGH:
            near = size[(size > 0) & (size < 2 * least)]
            above = torch.unique(torch.cat([above, near]))
    if small < nonzero / 2 or len(above) < LEAST_ABOVE:
        return None
    return Cutoff(least, 1 - nonzero / inside)
