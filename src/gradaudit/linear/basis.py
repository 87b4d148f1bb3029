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
    # One vector decides about the next: on a GPU every step would wait for the device.
    vectors = ordered.cpu()
    basis = vectors.new_zeros(0, size)
    kept: list[int] = []
    for position, direction in enumerate(vectors):
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


def complement_basis(directions: Float[Tensor, "r b"]) -> Float[Tensor, "b b"]:
    """The directions, followed by an orthonormal basis of what is orthogonal to them all.

    A matrix Q of the rows given separates the records of the directions that are right from the
    rest, which stay mixed with each other.

    Args:
        directions: Independent unit vectors, as `sparsest_basis` chooses them; there may be none.

    Returns:
        Rows that span the whole space.

    Raises:
        ValueError: The directions are dependent.

    Source:
        SPEAR++ (arXiv 2510.24200): what is done where too few directions are found.

    Example:
        >>> complement_basis(torch.tensor([[0.0, 1.0]])).abs().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    rank = len(sparsest_basis(directions))
    if rank < len(directions):
        raise ValueError(f"{len(directions)} directions span only {rank} dimensions")
    complement = torch.linalg.svd(directions, full_matrices=True).Vh[rank:]
    return torch.cat([directions, complement])
