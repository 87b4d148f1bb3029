"""How strong the noise is, and how many records stand clear of it."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.evidence import Spectrum
from gradaudit.linear.factor import Factors

# A singular value counts from so far above the edge of the noise's spectrum: the largest one of
# noise alone exceeds the edge by more than 2 % in none of a million matrices of 50 x 50 or larger
# (Tracy and Widom's law: its spread there is 1.3 % of the edge, and its mean lies 1.6 % below).
EDGE_MARGIN = 1.05
# Rounds of removing what stands above the edge and measuring the rest; one or two do.
ROUNDS = 20


def noise_edge(shape: tuple[int, int], level: float) -> float:
    r"""Where the singular values of noise alone end: :math:`\sigma (\sqrt m + \sqrt n)`.

    Args:
        shape: (m, n).
        level: Standard deviation of an entry, sigma.

    Source:
        Marchenko and Pastur, 1967.

    Example:
        >>> noise_edge((100, 400), 0.1)
        3.0
    """
    return level * (math.sqrt(shape[0]) + math.sqrt(shape[1]))


def measure_noise(
    values: Float[Tensor, " k"],
    shape: tuple[int, int],
    known: float | None = None,
    *,
    beyond: float = 0.0,
) -> tuple[float, int]:
    r"""The noise's level and the number of singular values that stand above it.

    The values below the edge belong to noise alone, all but those of records too weak to be told
    from it, so that their energy gives the level, on :math:`(m - r)(n - r)` entries; the level
    gives the edge, and so on until nothing changes.

    Args:
        values: The singular values, descending; all min(m, n), or the leading ones.
        shape: (m, n).
        known: The level, if it is known.
        beyond: Sum of the squares of the values that are not among those given.

    Returns:
        Standard deviation of an entry, and the rank r.

    Source:
        The edge: Marchenko and Pastur. Gavish and Donoho (arXiv 1305.5870) start from the median
        singular value; with a known shape of the rest, its energy is more precise.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> noise = torch.randn(60, 80, generator=g, dtype=torch.float64)
        >>> signal = 30 * torch.eye(60, 80, dtype=torch.float64)[:, :] * (torch.arange(80) < 3)
        >>> level, rank = measure_noise(torch.linalg.svdvals(signal + noise), (60, 80))
        >>> round(level, 1), rank
        (1.0, 3)
    """
    rows, columns = shape
    energies = values.square()
    rank = 0
    level = 0.0
    for _ in range(ROUNDS):
        left = (rows - rank) * (columns - rank)
        if left <= 0:
            break
        level = known or math.sqrt((float(energies[rank:].sum()) + beyond) / left)
        above = int((values > EDGE_MARGIN * noise_edge(shape, level)).sum())
        if above <= rank:
            break
        rank = above
    return level, rank


def factors_above_noise(factors: Factors, level: float, rank: int) -> Factors:
    """The factors at the rank that stands above the noise, and the noise of every row.

    Args:
        factors: At any larger rank.
        level: Standard deviation of the noise in an entry.
        rank: How many singular values to keep.
    """
    rows, columns = len(factors.left), len(factors.right)
    edge = noise_edge((rows, columns), level)
    series = factors.spectrum.singular_values
    ratio = series[rank - 1] / series[rank] if 0 < rank < len(series) else None
    clear = series[rank - 1] / edge if rank else 0.0
    spectrum: Spectrum = replace(
        factors.spectrum,
        numerical_rank=rank,
        threshold=EDGE_MARGIN * edge,
        gap_ratio=ratio,
        has_gap=False,
        noise_level=level,
        explanation=(
            f"{rank} singular values stand above the edge of noise of standard deviation "
            f"{level:.2g} ({edge:.2g}), the last of them {clear:.2g} times; records with a weaker "
            "signal cannot be told from noise by the spectrum."
        ),
    )
    return Factors(
        factors.left[:, :rank],
        factors.values[:rank],
        factors.right[:, :rank],
        torch.full_like(factors.row_noise, level),
        torch.full_like(factors.column_noise, level),
        spectrum,
    )
