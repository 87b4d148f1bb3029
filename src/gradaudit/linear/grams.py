"""Gram matrices of one set of rows, weighted or of subsets, in blocks that fit in memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Entries of the weighted copies of the rows that are formed at once.
BLOCK_ENTRIES = 1 << 24
# The same for gathered rows, which a product is to find in the cache.
GATHERED_ENTRIES = 1 << 20


def weighted_grams(
    rows: Float[Tensor, "l b"], weights: Float[Tensor, "k l"]
) -> Iterator[tuple[slice, Float[Tensor, "j b b"]]]:
    r"""Yield :math:`U^T \operatorname{diag}(w_i)\, U`, block by block.

    Args:
        rows: U.
        weights: w_i, one set a row.

    Yields:
        Which of the sets, and their matrices.

    Example:
        >>> import torch
        >>> for which, gram in weighted_grams(torch.eye(2), torch.tensor([[1.0, 3.0]])):
        ...     print(which, gram.tolist())
        slice(0, 1, None) [[[1.0, 0.0], [0.0, 3.0]]]
    """
    step = max(1, BLOCK_ENTRIES // max(1, rows.numel()))
    for start in range(0, len(weights), step):
        which = slice(start, min(start + step, len(weights)))
        yield which, (rows.T[None] * weights[which, None, :]) @ rows


def subset_grams(
    rows: Float[Tensor, "l b"], chosen: Float[Tensor, "k l"]
) -> Float[Tensor, "k b b"]:
    """Gram matrices of subsets of rows.

    Most subsets are half of the rows: gathered, they are half of the work that weighted ones are.

    Args:
        rows: All rows.
        chosen: 1 where a row belongs to the subset, else 0.

    Example:
        >>> subset_grams(torch.eye(2), torch.tensor([[1.0, 0.0]])).tolist()
        [[[1.0, 0.0], [0.0, 0.0]]]
    """
    most, size = int(chosen.sum(1).max()) if len(chosen) else 0, rows.shape[1]
    # Shorter subsets are filled up with a row of zeros.
    padded = torch.cat([rows, torch.zeros_like(rows[:1])])
    grams = rows.new_empty(len(chosen), size, size)
    step = max(1, GATHERED_ENTRIES // max(1, most * size))
    for part, gram in zip(torch.split(chosen, step), torch.split(grams, step), strict=True):
        belongs, order = part.sort(dim=1, descending=True, stable=True)
        order = torch.where(belongs[:, :most] > 0, order[:, :most], len(rows))
        subset = gather_rows(padded, order)
        torch.matmul(subset.mT, subset, out=gram)
    return grams


def gather_rows(rows: Float[Tensor, "l b"], places: Int[Tensor, "k r"]) -> Float[Tensor, "k r b"]:
    """Sets of rows, by their places: ``rows[places]``, several times as fast.

    Example:
        >>> gather_rows(torch.eye(2), torch.tensor([[1], [0]])).tolist()
        [[[0.0, 1.0]], [[1.0, 0.0]]]
    """
    return rows.index_select(0, places.flatten()).reshape(*places.shape, rows.shape[1])
