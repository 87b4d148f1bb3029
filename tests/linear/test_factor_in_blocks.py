"""Gradients too large for copies: the same factors, from blocks of a few rows."""

from __future__ import annotations

import pytest
import torch

from gradaudit.errors import InputError
from gradaudit.linear import blocks, factor
from gradaudit.linear.factor import factor_gradient
from linear.planted import gaussian, plant, seeded


@pytest.fixture
def both(monkeypatch):
    """Factors the usual way, and in blocks."""

    def run(matrix, **options):
        whole = factor_gradient(matrix, generator=seeded(0), **options)
        with monkeypatch.context() as patch:
            patch.setattr(factor, "WIDE_ENTRIES", 0)
            patch.setattr(blocks, "BLOCK_ENTRIES", 7 * matrix.shape[1])
            streamed = factor_gradient(matrix, generator=seeded(1), **options)
        assert (whole.streamed, streamed.streamed) == (False, True)
        return whole, streamed

    return run


def low_rank(rows, columns, rank):
    return gaussian(rows, rank, 1) @ gaussian(rank, columns, 2)


def assert_alike(whole, streamed, tolerance=1e-9):
    assert streamed.rank == whole.rank
    assert streamed.spectrum.has_gap == whole.spectrum.has_gap
    assert torch.allclose(streamed.values, whole.values, rtol=tolerance)
    for one, other in ((whole.left, streamed.left), (whole.right, streamed.right)):
        assert float((other - one @ (one.T @ other)).norm()) < tolerance
        assert torch.allclose(other.T @ other, torch.eye(whole.rank).double(), atol=1e-9)
    assert torch.allclose(streamed.row_noise, whole.row_noise, rtol=1e-3)
    assert torch.allclose(streamed.column_noise, whole.column_noise, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "shape",
    [(40, 70), (70, 40), (540, 600), (700, 530)],
    ids=["triangles of rows", "triangles of columns", "wide sketch", "tall sketch"],
)
def test_the_factors_are_the_same(both, shape, dtype):
    matrix = low_rank(*shape, 6).to(dtype)
    # Of bfloat16's rounding, leading vectors take a share that depends on the last bit.
    assert_alike(*both(matrix), tolerance=1e-9)


def test_records_of_a_network(both):
    planted = plant(gaussian(8, 400, 3), width=300, factor_like=torch.float32)
    assert_alike(*both(planted.layer.weight_gradient))


@pytest.mark.parametrize("shape", [(540, 560), (560, 540)])
def test_a_rank_beyond_every_sketch(both, shape):
    """The Gram matrix, whose roots lose half of the digits; its leading vectors do not."""
    whole, streamed = both(low_rank(*shape, 250).float())
    assert_alike(whole, streamed, tolerance=1e-8)
    assert "Gram matrix" in streamed.spectrum.explanation
    assert "Gram" not in whole.spectrum.explanation


@pytest.mark.parametrize("shape", [(60, 80), (540, 560)], ids=["triangles", "Gram matrix"])
def test_noise(both, shape):
    clear = low_rank(*shape, 4)
    whole, streamed = both((clear + 1e-2 * gaussian(*shape, 7)).float())
    assert (streamed.rank, streamed.spectrum.has_gap) == (4, True)
    assert_alike(whole, streamed)
    assert float(streamed.row_noise.mean()) == pytest.approx(1e-2, rel=0.1)
    whole, streamed = both(gaussian(*shape, 8).float())
    assert not streamed.spectrum.has_gap
    assert streamed.spectrum.numerical_rank == whole.spectrum.numerical_rank


def test_records_alike_are_no_noise(both):
    records = torch.rand(1000, 30, generator=seeded(3), dtype=torch.float64) + 2
    whole, streamed = both(plant(records, width=300, seed=3).layer.weight_gradient)
    assert not streamed.spectrum.has_gap
    assert streamed.spectrum.explanation == whole.spectrum.explanation


def test_zeros(both):
    whole, streamed = both(torch.zeros(5, 7))
    assert whole.rank == streamed.rank == 0


def test_what_does_not_fit_is_refused_in_one_line():
    gradient = low_rank(600, 700, 3).float()
    with pytest.raises(InputError) as caught:
        factor_gradient(gradient, generator=seeded(0), memory=10**6)
    text = str(caught.value)
    assert "600 x 700, factored by a sketch of 96, which needs 17.58 MiB" in text
    assert "at most 976.56 KiB, the limit that was set" in text
    assert "\n" not in text
    # As much as it needs is enough.
    assert factor_gradient(gradient, generator=seeded(0), memory=2 * 10**7).streamed
    assert not factor_gradient(gradient, generator=seeded(0), memory=10**9).streamed
