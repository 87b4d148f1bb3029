"""Decompositions of a gradient: whole, by a range finder, by triangles, or by a Gram matrix.

All but the first hold a few thin or small matrices beside the gradient, whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.blocks import BLOCK_ENTRIES, is_ready, row_blocks, times, transposed_times
from gradaudit.linear.stopping import Check, T, go_on, waiting
from gradaudit.linear.tolerances import FLOAT64_EPS
from gradaudit.memory import check_memory

# Up to this many rows or columns a full SVD costs less than a second, or a pass over the gradient.
FULL_SVD_SIDE = 512
FIRST_SKETCH = 96
OVERSAMPLING = 16
# A random sketch shows the rounding of all columns in a few, and singular values to a factor of a
# few: what lies within so many rounding floors is looked at in the second pass.
ROUGH_FLOORS = 30.0
# A Gram matrix holds squares of singular values to the rounding of the largest square: what is
# smaller than so many roots of a rounding of the largest value is lost in it.
GRAM_ROUNDINGS = 4.0
# Thin matrices of m and of n rows that a sketch holds at most, blocks of the gradient beside them,
# and copies of a Gram matrix while its eigenvectors are found.
THIN_COPIES, BLOCKS, GRAM_COPIES = 5, 4, 5


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Singular values and the vectors of the leading ones.

    Attributes:
        values: All that are known, descending.
        lost: Values below this are not known; 0 where all are exact to rounding.
        leading: Gives (U, S, V) of the leading ones, so many.
    """

    values: Float[Tensor, " k"]
    lost: float
    leading: Callable[[int], tuple[Tensor, Tensor, Tensor]]


def decompose(
    matrix: Float[Tensor, "m n"],
    floor_of: Callable[[float], float],
    generator: torch.Generator,
    *,
    streamed: bool,
    memory: int | None = None,
    check: Check = go_on,
) -> Decomposition:
    """Find the singular values that stand above a floor, and those just below it.

    Args:
        matrix: As observed if it is streamed, else in float64.
        floor_of: The floor, given the largest singular value.
        generator: For the range finder; computations are on its device.
        streamed: Whether no copy of the matrix may be made.
        memory: Bytes that may be taken beside a streamed matrix; None for what is available.
        check: Called between blocks of work, and during decompositions that take long; what it
            raises ends the work.

    Raises:
        InputError: A streamed matrix needs more.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> matrix = torch.diag(torch.tensor([3.0, 2.0, 0.0]).double())
        >>> found = decompose(matrix, lambda largest: 1e-12, g, streamed=False)
        >>> [round(value, 9) for value in found.values.tolist()]
        [3.0, 2.0, 0.0]
    """
    large, room = min(matrix.shape) > FULL_SVD_SIDE, _Room(matrix, streamed, memory)
    if streamed or large:
        found = _sketched(matrix, floor_of, generator, room, check)
        if found is not None:
            return found
    if streamed:
        by = _by_gram_matrix if large else _by_triangles
        return by(matrix, generator.device, room, check)
    return _known(*_svd(matrix, check))


def sketch_bytes(shape: tuple[int, int], size: int) -> int:
    """Bytes that a range finder of so many vectors takes beside a streamed matrix.

    Example:
        >>> sketch_bytes((16_000, 150_528), 96) < 2**30
        True
    """
    return 8 * (THIN_COPIES * sum(shape) * size + _block_entries(shape))


def _block_entries(shape: tuple[int, int]) -> int:
    return BLOCKS * min(BLOCK_ENTRIES, shape[0] * shape[1])


def _known(left: Tensor, values: Tensor, right: Tensor) -> Decomposition:
    return Decomposition(values, 0.0, lambda k: (left[:, :k], values[:k], right[:, :k]))


def _svd(matrix: Tensor, check: Check) -> tuple[Tensor, Tensor, Tensor]:
    left, values, right = _waiting(
        lambda: torch.linalg.svd(matrix, full_matrices=False), check, matrix
    )
    return left, values, right.T


def _basis(vectors: Tensor, check: Check) -> tuple[Tensor, Tensor]:
    """Q and R."""
    return _waiting(lambda: torch.linalg.qr(vectors), check, vectors)


def _waiting(work: Callable[[], T], check: Check, matrix: Tensor) -> T:
    """Ask meanwhile whether to go on, unless it takes no time worth it."""
    return work() if min(matrix.shape) <= FULL_SVD_SIDE else waiting(work, check, matrix)


@dataclass(frozen=True)
class _Room:
    """Refuses what does not fit beside a streamed matrix; a whole one has been copied already."""

    matrix: Tensor
    streamed: bool
    memory: int | None

    def check(self, needed: int, how: str) -> None:
        if self.streamed:
            rows, columns = self.matrix.shape
            what = f"a gradient of {rows:,} x {columns:,}, factored by {how}"
            check_memory(what, needed, self.memory)


def _sketched(
    matrix: Tensor,
    floor_of: Callable[[float], float],
    generator: torch.Generator,
    room: _Room,
    check: Check,
) -> Decomposition | None:
    """SVD by a range finder whose size doubles until the gradient is exhausted to rounding.

    A gradient of rank b is captured by any sketch of more than b columns exactly, up to rounding,
    so that nothing is approximated; a full-rank (noisy) one never is: None. Errors that the
    rounding of weights leaves below a sketch turn its vectors by the cube of their relative size,
    as they themselves do in proportion.
    """
    (rows, columns), side = matrix.shape, min(matrix.shape) // 3
    place = generator.device
    sketch = torch.empty(rows, 0, dtype=torch.float64, device=place)
    size = FIRST_SKETCH
    while size <= side:
        room.check(sketch_bytes((rows, columns), size), f"a sketch of {size}")
        test = torch.randn(
            columns,
            size - sketch.shape[1],
            generator=generator,
            dtype=torch.float64,
            device=place,
        )
        check()
        sketch = torch.cat([sketch, times(matrix, test, check)], dim=1)
        del test
        check()
        basis, triangle = _basis(sketch, check)
        turned, rough, _ = _svd(triangle, check)
        rough = rough / size**0.5
        seen = int((rough > ROUGH_FLOORS * floor_of(float(rough[0]))).sum())
        if seen + OVERSAMPLING <= size or 2 * size > side:
            kept = min(seen + 2 * OVERSAMPLING, size)
            found = _straightened(matrix, basis @ turned[:, :kept], check)
            tail = found.values[kept - OVERSAMPLING :]
            if bool((tail <= floor_of(float(found.values[0]))).all()):
                return found
        size *= 2
    return None


def _straightened(matrix: Tensor, vectors: Tensor, check: Check) -> Decomposition:
    """The SVD within a span that a second pass straightens where it was seen weakly."""
    images = transposed_times(matrix, vectors, check)
    check()
    images = times(matrix, images, check)
    check()
    return _within(matrix, _basis(images, check)[0], check)


def _within(matrix: Tensor, basis: Tensor, check: Check) -> Decomposition:
    """The SVD within the span of an orthonormal basis."""
    ready = is_ready(matrix, basis)
    inside = basis.T @ matrix if ready else transposed_times(matrix, basis, check).T
    check()
    inner, values, right = _svd(inside, check)
    return _known(basis @ inner, values, right)


def _by_triangles(matrix: Tensor, place: torch.device, room: _Room, check: Check) -> Decomposition:
    """All singular values from one triangle, into which the gradient's blocks are folded by QR.

    As exact as the SVD of the whole, for gradients of few rows or few columns.
    """
    (rows, columns), wide = matrix.shape, matrix.shape[0] <= matrix.shape[1]
    side = min(rows, columns)
    room.check(sketch_bytes((rows, columns), side), f"triangles of {side}")
    triangle = torch.zeros(0, side, dtype=torch.float64, device=place)
    parts = torch.split(matrix, max(1, BLOCK_ENTRIES // side), dim=1 if wide else 0)
    for part in parts:
        check()
        block = part.to(place, torch.float64)
        stacked = torch.cat([triangle, block.T if wide else block])
        triangle = torch.linalg.qr(stacked, mode="r").R
    _, values, vectors = _svd(triangle, check)

    def leading(rank: int) -> tuple[Tensor, Tensor, Tensor]:
        basis = vectors if wide else _basis(times(matrix, vectors, check), check)[0]
        return _within(matrix, basis[:, :rank].contiguous(), check).leading(rank)

    return Decomposition(values, 0.0, leading)


def _by_gram_matrix(
    matrix: Tensor, place: torch.device, room: _Room, check: Check
) -> Decomposition:
    """All singular values as roots of the eigenvalues of G G^T or G^T G, the smaller of the two.

    Values below a root of float64's rounding are lost. Vectors are straightened by a second pass.
    """
    wide = matrix.shape[0] <= matrix.shape[1]
    side = min(matrix.shape)
    shape = matrix.shape[0], matrix.shape[1]
    room.check(8 * (GRAM_COPIES * side**2 + _block_entries(shape)), "its Gram matrix")
    gram = torch.zeros(side, side, dtype=torch.float64, device=place)
    if wide:
        for block in torch.split(matrix, max(1, BLOCK_ENTRIES // side), dim=1):
            check()
            part = block.to(place, torch.float64)
            gram.addmm_(part, part.T)
    else:
        for _, part in row_blocks(matrix, place, check):
            gram.addmm_(part.T, part)
    squares, vectors = _waiting(lambda: torch.linalg.eigh(gram), check, gram)
    values = squares.flip(0).clamp(min=0).sqrt()

    def leading(rank: int) -> tuple[Tensor, Tensor, Tensor]:
        kept = min(rank + OVERSAMPLING, side)
        room.check(sketch_bytes(shape, kept), f"a basis of {kept}")
        start = vectors[:, side - kept :].flip(1)
        start = start if wide else times(matrix, start.contiguous(), check)
        return _straightened(matrix, start.contiguous(), check).leading(rank)

    return Decomposition(values, GRAM_ROUNDINGS * FLOAT64_EPS**0.5 * float(values[0]), leading)
