"""Weighted Gram matrices of one set of rows, in blocks that fit in memory."""

from __future__ import annotations

from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor

# Entries of the weighted copies of the rows that are formed at once.
BLOCK_ENTRIES = 1 << 24


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
