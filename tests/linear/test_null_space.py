"""Null vectors by Cholesky agree with singular value decompositions, many at once."""

from __future__ import annotations

import pytest
import torch

from gradaudit.linear.null_space import (
    masked_null_vectors,
    null_vectors,
    without_null_vector,
)
from gradaudit.linear.refine import null_vector
from linear.planted import gaussian, seeded


def with_kernel(sets: int, rows: int, size: int, *, dimension: int = 1, condition: float = 1.0):
    """Sets of rows with a kernel of a dimension, and a basis of each kernel."""
    matrix = torch.randn(sets, rows, size, generator=seeded(3), dtype=torch.float64)
    matrix = matrix * torch.logspace(0, -(torch.tensor(condition).log10()), size).double()
    basis = torch.linalg.qr(torch.randn(sets, size, dimension, generator=seeded(4)).double()).Q
    return matrix - matrix @ basis @ basis.mT, basis


@pytest.mark.parametrize(("condition", "limit"), [(1.0, 1e-13), (1e3, 1e-11)])
def test_null_vectors_are_as_exact_as_the_svd_s(condition, limit):
    rows, kernel = with_kernel(8, 70, 40, condition=condition)
    vectors, first, second = null_vectors(rows)
    assert float((1 - (vectors[:, None] @ kernel)[:, 0, 0].abs()).max()) < limit
    assert float((rows @ vectors[..., None]).abs().max()) < 1e-13
    for index, matrix in enumerate(rows):
        by_svd = null_vector(matrix)
        assert by_svd is not None
        assert float((by_svd @ vectors[index]).abs()) > 1 - limit
    eigenvalues = torch.linalg.eigvalsh(rows.mT @ rows)
    norm = (rows.mT @ rows).norm(dim=(1, 2))
    assert float(first.max()) < 1e-15
    ratio = second * norm / eigenvalues[:, 1]
    assert float(ratio.min()) > 0.99
    assert float(ratio.max()) < 10


def test_a_plane_has_no_second_eigenvalue():
    rows, _ = with_kernel(5, 70, 40, dimension=2)
    _, first, second = null_vectors(rows)
    assert float(first.max()) < 1e-15
    assert float(second.max()) < 1e-13


def test_without_a_kernel_the_first_eigenvalue_says_so():
    rows, _ = with_kernel(5, 70, 40, dimension=1)
    rows[:, 0] += 1.0
    assert float(null_vectors(rows)[1].min()) > 1e-8


@pytest.mark.parametrize("size", [1, 4])
def test_rows_of_zeros_have_no_single_null_vector(size):
    _, first, second = null_vectors(torch.zeros(2, 3, size, dtype=torch.float64))
    assert second.tolist() == [0.0, 0.0]
    assert not bool((first < 1.0).any())


def test_masks_choose_rows():
    rows = gaussian(60, 12, 0)
    chosen = torch.rand(7, 60, generator=seeded(1)) < 0.5
    vectors, first, second = masked_null_vectors(rows, chosen.double())
    for index, mask in enumerate(chosen):
        expected = null_vectors(rows[mask][None])
        assert float((vectors[index] @ expected[0][0]).abs()) == pytest.approx(1.0, abs=1e-10)
        assert float(first[index]) == pytest.approx(float(expected[1]), rel=1e-6)
        assert float(second[index]) == pytest.approx(float(expected[2]), rel=1e-6)


def test_blocks_change_nothing(monkeypatch):
    rows, chosen = gaussian(60, 12, 0), (gaussian(9, 60, 1) > 0).double()
    whole = masked_null_vectors(rows, chosen)
    monkeypatch.setattr("gradaudit.linear.null_space.BLOCK_ENTRIES", 2 * rows.shape[1] ** 2)
    monkeypatch.setattr("gradaudit.linear.grams.GATHERED_ENTRIES", rows.shape[1])
    parts = masked_null_vectors(rows, chosen)
    assert all(torch.allclose(one, other) for one, other in zip(whole, parts, strict=True))


@pytest.mark.parametrize("dimension", [0, 1, 2])
@pytest.mark.parametrize("known", [False, True])
def test_a_cholesky_factor_excludes_further_null_vectors(dimension, known):
    rows, kernel = with_kernel(6, 70, 40, dimension=max(dimension, 1))
    if not dimension:
        rows = rows + kernel.mT
    limits = torch.full((6,), 1e-6, dtype=torch.float64)
    excluded = without_null_vector(rows, limits, known=kernel[..., 0] if known else None)
    assert excluded.tolist() == [dimension <= int(known)] * 6


def test_no_known_vector_makes_a_plane_pass():
    rows, _ = with_kernel(6, 70, 40, dimension=2)
    limits = torch.full((6,), 1e-6, dtype=torch.float64)
    other = torch.nn.functional.normalize(gaussian(6, 40, 1), dim=1)
    assert not bool(without_null_vector(rows, limits, known=other).any())
