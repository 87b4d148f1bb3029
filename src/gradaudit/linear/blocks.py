"""Large matrices, as they were observed, worked on in float64 a block of rows at a time.

A matrix that is float64 already is used as it is. Any other is converted block by block, exactly,
so that no second copy of it exists and every product is still one of float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.linear.stopping import Check, go_on

# Entries of a block: 32 MiB in float64, a few hundred rows of most layers.
BLOCK_ENTRIES = 1 << 22


@dataclass(frozen=True, eq=False)
class Lines:
    """What one pass over a matrix tells of its rows and columns, in float64.

    Attributes:
        row_energies: Squared norms of the rows.
        column_energies: Of the columns.
        column_sums: Sum of each column.
        live_rows: Rows with an entry other than zero.
        live_columns: The same of columns.
        largest: Largest magnitude of an entry.
    """

    row_energies: Float[Tensor, " m"]
    column_energies: Float[Tensor, " n"]
    column_sums: Float[Tensor, " n"]
    live_rows: Bool[Tensor, " m"]
    live_columns: Bool[Tensor, " n"]
    largest: float

    @property
    def largest_row(self) -> float:
        """The largest norm of a row."""
        return float(self.row_energies.max().sqrt())

    @property
    def largest_column(self) -> float:
        """The largest norm of a column."""
        return float(self.column_energies.max().sqrt())


def row_blocks(
    matrix: Float[Tensor, "m n"], place: torch.device | None = None, check: Check = go_on
) -> Iterator[tuple[slice, Float[Tensor, "k n"]]]:
    """Yield the matrix in float64, a few rows at a time.

    Args:
        matrix: Any floating-point type.
        place: Device of the blocks; the matrix's own by default.
        check: Called between two blocks; what it raises ends the walk.

    Yields:
        Which rows, and these.

    Example:
        >>> [block.tolist() for _, block in row_blocks(torch.ones(1, 2))]
        [[[1.0, 1.0]]]
    """
    rows, columns = matrix.shape
    step = max(1, BLOCK_ENTRIES // max(1, columns))
    for start in range(0, rows, step):
        if start:
            check()
        which = slice(start, min(start + step, rows))
        yield which, matrix[which].to(place or matrix.device, torch.float64)


def measure_lines(
    matrix: Float[Tensor, "m n"], place: torch.device | None = None, check: Check = go_on
) -> Lines:
    """Measure rows and columns in one pass.

    Args:
        matrix: Any floating-point type.
        place: Where to compute.
        check: Called between two blocks.

    Example:
        >>> measure_lines(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).row_energies.tolist()
        [25.0, 0.0]
    """
    rows, columns = matrix.shape
    like = torch.zeros((), dtype=torch.float64, device=place or matrix.device)
    row_energies, live_rows = like.new_zeros(rows), like.new_zeros(rows, dtype=torch.bool)
    column_energies, column_sums = like.new_zeros(columns), like.new_zeros(columns)
    live_columns, largest = like.new_zeros(columns, dtype=torch.bool), like
    for which, block in row_blocks(matrix, place, check):
        column_sums += block.sum(0)
        live = block != 0
        live_rows[which] = live.any(1)
        live_columns |= live.any(0)
        if block.numel():
            largest = largest.maximum(torch.linalg.vector_norm(block, torch.inf))
        squares = block.square()
        row_energies[which] = squares.sum(1)
        column_energies += squares.sum(0)
    return Lines(
        row_energies, column_energies, column_sums, live_rows, live_columns, float(largest)
    )


def times(
    matrix: Float[Tensor, "m n"], right: Float[Tensor, "n ..."], check: Check = go_on
) -> Float[Tensor, "m ..."]:
    """The product in float64, on the device of the second factor; checked between blocks.

    Example:
        >>> times(torch.ones(2, 3), torch.ones(3).double()).tolist()
        [3.0, 3.0]
    """
    if is_ready(matrix, right):
        return matrix @ right
    product = right.new_empty(len(matrix), *right.shape[1:])
    for which, block in row_blocks(matrix, right.device, check):
        product[which] = block @ right
    return product


def applied(matrix: Float[Tensor, "m n"], records: Float[Tensor, "b n"]) -> Float[Tensor, "b m"]:
    """What a layer of these weights makes of records, in float64 and without its bias.

    Example:
        >>> applied(torch.ones(2, 3), torch.ones(1, 3).double()).tolist()
        [[3.0, 3.0]]
    """
    return records @ matrix.T if is_ready(matrix, records) else times(matrix, records.T).T


def transposed_times(
    matrix: Float[Tensor, "m n"], right: Float[Tensor, "m k"], check: Check = go_on
) -> Float[Tensor, "n k"]:
    """The same with the transposed matrix.

    Example:
        >>> transposed_times(torch.ones(2, 3), torch.ones(2, 1).double()).tolist()
        [[2.0], [2.0], [2.0]]
    """
    if is_ready(matrix, right):
        return matrix.T @ right
    product = right.new_zeros(matrix.shape[1], right.shape[1])
    for which, block in row_blocks(matrix, right.device, check):
        product.addmm_(block.T, right[which])
    return product


def row_norms(matrix: Float[Tensor, "m n"]) -> Float[Tensor, " m"]:
    """Euclidean norms of the rows, in float64.

    Example:
        >>> row_norms(torch.tensor([[3.0, 4.0]])).tolist()
        [5.0]
    """
    if matrix.dtype == torch.float64:
        return matrix.norm(dim=1)
    # Torch's own norm in another type copies the whole matrix first.
    return torch.cat([block.norm(dim=1) for _, block in row_blocks(matrix)])


def frobenius(matrix: Float[Tensor, "m n"]) -> Float[Tensor, ""]:
    """The square root of the sum of squares, in float64.

    Example:
        >>> float(frobenius(torch.tensor([[3.0, 4.0]])))
        5.0
    """
    if matrix.dtype == torch.float64:
        return matrix.norm()
    return row_norms(matrix).norm()


def live_lines(matrix: Float[Tensor, "m n"]) -> tuple[Bool[Tensor, " m"], Bool[Tensor, " n"]]:
    """Rows and columns that are not zero throughout.

    Example:
        >>> live_lines(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
        (tensor([ True, False]), tensor([False,  True]))
    """
    rows = matrix.new_zeros(len(matrix), dtype=torch.bool)
    columns = matrix.new_zeros(matrix.shape[1], dtype=torch.bool)
    step = max(1, BLOCK_ENTRIES // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        live = matrix[start : start + step] != 0
        rows[start : start + step] = live.any(1)
        columns |= live.any(0)
    return rows, columns


def home_of(matrix: Float[Tensor, "m n"], place: torch.device, copies: int) -> torch.device:
    """Where to keep a large matrix that is worked on at a place: there, if it has room.

    Else it stays where it is, and its blocks go to the place one by one.

    Args:
        matrix: As observed.
        place: Where products with it are computed.
        copies: How many of its size must fit, leaving half of the free memory to other things.

    Example:
        >>> home_of(torch.zeros(2, 2), torch.device("cpu"), copies=1)
        device(type='cpu')
    """
    if place.type != "cuda":
        return place
    free = torch.cuda.mem_get_info(place)[0]
    return place if copies * matrix.numel() * matrix.element_size() <= free // 2 else matrix.device


def is_ready(matrix: Tensor, other: Tensor) -> bool:
    """Whether a product of the two needs no conversion."""
    return matrix.dtype == torch.float64 and matrix.device == other.device
