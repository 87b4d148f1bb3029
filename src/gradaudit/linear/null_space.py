"""Null vectors of many sets of rows at once, with the evidence that each is the only one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.linear.grams import BLOCK_ENTRIES, subset_grams

# Solves with the nearly singular Gram matrix; each multiplies the null vector's share by the
# ratio of the second eigenvalue to the shift.
NULL_SOLVES = 3
# Solves towards the second eigenvalue, of which only the order of magnitude is wanted.
SECOND_SOLVES = 3
# Corrections by the rows themselves, since forming the Gram matrix loses half the digits.
CORRECTIONS = 2
# The shift that makes a singular Gram matrix factorable, in roundings of its trace.
SHIFT_ROUNDINGS = 4.0

Kernels = tuple[Float[Tensor, "k b"], Float[Tensor, " k"], Float[Tensor, " k"]]


def null_vectors(rows: Float[Tensor, "k r b"]) -> Kernels:
    r"""The vector that each set of rows annihilates best, and how alone it is.

    Inverse iteration with a shifted Cholesky factor of the Gram matrix, a tenth of the work of an
    eigendecomposition; then corrections by the rows' own residual, so that the vector is as
    accurate as a singular value decomposition of the rows would make it.

    Args:
        rows: Sets of rows, float64.

    Returns:
        Unit vectors; the smallest eigenvalue of each Gram matrix, and about the second smallest
        (never too small), both relative to its Frobenius norm. Where nothing could be solved the
        second is zero, as if there were no single null vector.

    Example:
        >>> rows = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1.0, 1.0, 0.0]]]).double()
        >>> vectors, first, second = null_vectors(rows)
        >>> vectors.abs().round(decimals=9).tolist(), bool(first < 1e-12), bool(second > 1e-2)
        ([[0.0, 0.0, 1.0]], True, True)
    """
    return _kernels(rows.mT @ rows, lambda q: (rows.mT @ (rows @ q[..., None]))[..., 0])


def masked_null_vectors(rows: Float[Tensor, "l b"], chosen: Float[Tensor, "k l"]) -> Kernels:
    """`null_vectors` of subsets of the same rows.

    Args:
        rows: All rows, float64.
        chosen: 1 where a row belongs to the subset, else 0.

    Example:
        >>> rows = torch.eye(3).double()
        >>> vectors, _, _ = masked_null_vectors(rows, torch.tensor([[1.0, 0.0, 1.0]]).double())
        >>> vectors.abs().round(decimals=9).tolist()
        [[0.0, 1.0, 0.0]]
    """
    step = max(1, BLOCK_ENTRIES // max(1, rows.shape[1] ** 2))
    parts = [
        _kernels(subset_grams(rows, block), _gram_product(rows, block))
        for block in torch.split(chosen, step)
    ]
    vectors, first, second = zip(*parts, strict=True)
    return torch.cat(vectors), torch.cat(first), torch.cat(second)


def without_null_vector(
    rows: Float[Tensor, "k r b"],
    above: Float[Tensor, " k"],
    *,
    known: Float[Tensor, "k b"] | None = None,
) -> Bool[Tensor, " k"]:
    r"""Whether sets of rows surely have no null vector, or none besides a known one.

    :math:`A - \tau I` has a Cholesky factor where every eigenvalue of the Gram matrix A is above
    :math:`\tau`; more rows only raise them. And :math:`A + c\, q q^T` has no more eigenvalues below
    :math:`\tau` than A less one, whatever q: where it has none, A has one at most. No solve is
    needed.

    Args:
        rows: Sets of rows, float64.
        above: :math:`\tau`, well above the rounding of the Gram matrix.
        known: q, unit vectors; a null vector that is known to be there.

    Example:
        >>> rows = torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [2.0, 0.0]]]).double()
        >>> limits = torch.tensor([1e-6, 1e-6]).double()
        >>> without_null_vector(rows, limits).tolist()
        [True, False]
        >>> without_null_vector(rows, limits, known=torch.eye(2).double()[[1, 1]]).tolist()
        [True, True]
    """
    gram = rows.mT @ rows
    if known is not None:
        trace = gram.diagonal(dim1=1, dim2=2).sum(1)
        gram = gram + trace[:, None, None] * known[:, :, None] * known[:, None, :]
    eye = torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
    return torch.linalg.cholesky_ex(gram - above[:, None, None] * eye).info == 0


def _gram_product(rows: Tensor, block: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda q: (block * (q @ rows.T)) @ rows


def _kernels(gram: Float[Tensor, "k b b"], product: Callable[[Tensor], Tensor]) -> Kernels:
    """From Gram matrices, and their products with vectors taken through the rows."""
    size = gram.shape[1]
    norm = gram.norm(dim=(1, 2)).clamp(min=torch.finfo(gram.dtype).tiny)
    eye = torch.eye(size, dtype=gram.dtype, device=gram.device)
    shift = SHIFT_ROUNDINGS * torch.finfo(gram.dtype).eps * size * norm
    factor, failed = torch.linalg.cholesky_ex(gram + shift[:, None, None] * eye)

    def solve(vectors: Tensor) -> Tensor:
        return torch.cholesky_solve(vectors[..., None], factor)[..., 0]

    # Any two vectors serve that no null vector is orthogonal to by more than chance.
    places = torch.arange(1, size + 1, dtype=gram.dtype, device=gram.device)
    start, other = torch.cos(places * places), torch.sin(3 * places * places)
    null = _unit(start.expand(len(gram), size))
    for _ in range(NULL_SOLVES):
        null = _unit(solve(null))
    for _ in range(CORRECTIONS):
        null = _unit(null - _beside(solve(_beside(product(null), null)), null))
    first = (null * product(null)).sum(1) / norm
    if size == 1:
        second = torch.full_like(first, torch.inf)
    else:
        vector = _unit(_beside(other.expand(len(gram), size), null))
        for _ in range(SECOND_SOLVES):
            vector = _unit(_beside(solve(vector), null))
        second = (vector * product(vector)).sum(1) / norm
    wrong = (failed > 0) | ~torch.isfinite(null).all(1)
    return null, first, torch.where(wrong, 0.0, second)


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=1)


def _beside(vectors: Tensor, direction: Tensor) -> Tensor:
    """The part orthogonal to a direction."""
    return vectors - (vectors * direction).sum(1, keepdim=True) * direction
