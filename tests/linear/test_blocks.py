from __future__ import annotations

import pytest
import torch

from gradaudit.linear import blocks
from gradaudit.linear.blocks import (
    applied,
    frobenius,
    live_lines,
    measure_lines,
    row_blocks,
    row_norms,
    times,
    transposed_times,
)
from linear.planted import gaussian


@pytest.fixture(params=[1, 40, 1 << 22])
def size(request, monkeypatch):
    """Entries of a block: less than a row, a row and a bit, everything."""
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", request.param)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_products_are_those_of_float64(size, dtype):
    matrix = gaussian(13, 30, 0).to(dtype)
    wide, right, left = matrix.double(), gaussian(30, 4, 1), gaussian(13, 2, 2)
    assert torch.allclose(times(matrix, right), wide @ right, rtol=1e-13)
    assert torch.allclose(times(matrix, right[:, 0]), wide @ right[:, 0], rtol=1e-13)
    assert torch.allclose(transposed_times(matrix, left), wide.T @ left, rtol=1e-12)
    assert torch.allclose(applied(matrix, right.T), right.T @ wide.T, rtol=1e-13)
    assert torch.allclose(row_norms(matrix), wide.norm(dim=1), rtol=1e-14)
    assert float(frobenius(matrix)) == pytest.approx(float(wide.norm()), rel=1e-14)


def test_blocks_are_all_rows_once(size):
    matrix = gaussian(13, 30, 0).float()
    found = torch.cat([block for _, block in row_blocks(matrix)])
    assert found.dtype == torch.float64
    assert torch.equal(found.float(), matrix)


def test_lines(size):
    matrix = gaussian(13, 30, 0).float()
    matrix[4], matrix[:, 7] = 0, 0
    matrix[2, 3] = -9.0
    lines, wide = measure_lines(matrix), matrix.double()
    assert torch.allclose(lines.row_energies, wide.square().sum(1), rtol=1e-13)
    assert torch.allclose(lines.column_energies, wide.square().sum(0), rtol=1e-13)
    assert torch.allclose(lines.column_sums, wide.sum(0), atol=1e-13)
    assert lines.largest == 9.0
    assert (~lines.live_rows).nonzero().tolist() == [[4]]
    assert (~lines.live_columns).nonzero().tolist() == [[7]]
    assert all(map(torch.equal, live_lines(matrix), (lines.live_rows, lines.live_columns)))
