"""What a product of thin matrices leaves of a large one, which is never formed as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.blocks import row_blocks
from gradaudit.linear.stopping import Check, go_on, waiting

# Up to so many entries (half a gibibyte) a remainder of a float64 matrix is formed for its norm.
FORMED_ENTRIES = 1 << 26
# Vectors that are iterated together on the largest singular value, and how often: an isolated one
# is found to many digits, the edge of noise's spectrum to a few per cent.
POWER_VECTORS, POWER_PASSES = 8, 6


@dataclass(frozen=True, eq=False)
class Remainder:
    r"""The matrix :math:`R = \operatorname{diag}(r)\,(G - A B)\,\operatorname{diag}(c)`.

    Attributes:
        matrix: G, in any floating-point type.
        left: A, in float64.
        right: B, in float64.
        row_scale: r; ones by default.
        column_scale: c; ones by default.
        check: Called between blocks; what it raises ends the work.

    Example:
        >>> ones = torch.ones(3, 1, dtype=torch.float64)
        >>> rest = Remainder(torch.eye(3) + 1, ones, ones.T)
        >>> round(rest.spectral_norm(), 9), rest.rows.tolist()
        (1.0, [1.0, 1.0, 1.0])
    """

    matrix: Float[Tensor, "m n"]
    left: Float[Tensor, "m k"]
    right: Float[Tensor, "k n"]
    row_scale: Float[Tensor, " m"] | None = None
    column_scale: Float[Tensor, " n"] | None = None
    check: Check = go_on

    @classmethod
    def formed(cls, matrix: Float[Tensor, "m n"]) -> Remainder:
        """One that is there as a whole already."""
        empty = matrix.new_zeros(matrix.shape[0], 0, dtype=torch.float64)
        return cls(matrix, empty, empty.new_zeros(0, matrix.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def rows(self) -> Float[Tensor, " m"]:
        """Squared norms of the rows."""
        return self._energies[0]

    @property
    def columns(self) -> Float[Tensor, " n"]:
        """Squared norms of the columns."""
        return self._energies[1]

    @property
    def energy(self) -> float:
        """The squared Frobenius norm."""
        return float(self.rows.sum())

    @cached_property
    def _energies(self) -> tuple[Tensor, Tensor]:
        rows, columns = (self.left.new_zeros(size) for size in self.shape)
        for which, block in self.blocks():
            squares = block.square_()
            rows[which] = squares.sum(1)
            columns += squares.sum(0)
        return rows, columns

    def blocks(self) -> Iterator[tuple[slice, Float[Tensor, "k n"]]]:
        """Yield it a few rows at a time, each block a new tensor."""
        for which, block in row_blocks(self.matrix, self.left.device, self.check):
            part = torch.addmm(block, self.left[which], self.right, alpha=-1.0)
            if self.row_scale is not None:
                part *= self.row_scale[which, None]
            if self.column_scale is not None:
                part *= self.column_scale
            yield which, part

    def scaled(self, rows: Float[Tensor, " m"], columns: Float[Tensor, " n"]) -> Remainder:
        """The same with rows and columns multiplied; zeros leave lines out."""
        return replace(
            self,
            row_scale=rows if self.row_scale is None else self.row_scale * rows,
            column_scale=columns if self.column_scale is None else self.column_scale * columns,
        )

    def spectral_norm(self) -> float:
        """The largest singular value; of a large matrix from below, by subspace iteration."""
        if self.matrix.dtype == torch.float64 and self.matrix.numel() <= FORMED_ENTRIES:
            formed = torch.cat([block for _, block in self.blocks()])
            norm = waiting(lambda: torch.linalg.matrix_norm(formed, ord=2), self.check, formed)
            return float(norm)
        count = min(POWER_VECTORS, *self.shape)
        generator = torch.Generator().manual_seed(0)
        start = torch.randn(
            self.shape[1], count, generator=generator, dtype=torch.float64, device="cpu"
        )
        vectors, value = start.to(self.left), self.left.new_zeros(())
        for _ in range(POWER_PASSES):
            vectors = torch.linalg.qr(vectors).Q
            images = self._gram_times(vectors)
            # Largest eigenvalue within the span: never above that of the whole.
            value = torch.linalg.eigvalsh(vectors.T @ images)[-1]
            vectors = images
        return float(value.clamp(min=0).sqrt())

    def _gram_times(self, vectors: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """R^T (R x), in one pass and without forming a block of R."""
        if self.column_scale is not None:
            vectors = self.column_scale[:, None] * vectors
        inner = self.right @ vectors
        product, back = torch.zeros_like(vectors), torch.zeros_like(inner)
        for which, block in row_blocks(self.matrix, self.left.device, self.check):
            image = block @ vectors - self.left[which] @ inner
            if self.row_scale is not None:
                image *= self.row_scale[which, None].square()
            product.addmm_(block.T, image)
            back.addmm_(self.left[which].T, image)
        product -= self.right.T @ back
        return product if self.column_scale is None else self.column_scale[:, None] * product
