"""Independent directions out of many, the most wanted first."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.linear.tolerances import RANK_RESIDUAL


def sparsest_basis(ordered: Float[Tensor, "c b"]) -> Int[Tensor, " r"]:
    """Positions of the first rows that each add to the rank, in order.

    Args:
        ordered: Unit vectors, the most wanted first.

    Example:
        >>> rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> sparsest_basis(rows).tolist()
        [0, 2]
    """
    size = ordered.shape[1]
    basis = ordered.new_zeros(0, size)
    kept: list[int] = []
    for position, direction in enumerate(ordered):
        residual = direction - basis.T @ (basis @ direction)
        # Once more: one pass of Gram-Schmidt loses orthogonality for nearly dependent vectors.
        residual = residual - basis.T @ (basis @ residual)
        norm = residual.norm()
        if float(norm) > RANK_RESIDUAL:
            basis = torch.cat([basis, (residual / norm)[None]])
            kept.append(position)
            if len(kept) == size:
                break
    return torch.tensor(kept, dtype=torch.int64, device=ordered.device)
