from __future__ import annotations

import pytest
import torch

from gradaudit.linear import blocks
from gradaudit.linear.noise import looks_independent
from gradaudit.linear.remainder import Remainder
from linear.planted import gaussian


@pytest.fixture(params=[torch.float64, torch.float32])
def parts(request, monkeypatch):
    """A matrix, what is subtracted of it, and what is left; in blocks of a few rows."""
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", 200)
    matrix = gaussian(40, 60, 0).to(request.param)
    left, right = gaussian(40, 3, 1), gaussian(3, 60, 2)
    return matrix, left, right, matrix.double() - left @ right


def test_energies_and_blocks_are_those_of_the_formed_matrix(parts):
    matrix, left, right, formed = parts
    rest = Remainder(matrix, left, right)
    assert torch.allclose(torch.cat([b for _, b in rest.blocks()]), formed, atol=1e-13)
    assert torch.allclose(rest.rows, formed.square().sum(1))
    assert torch.allclose(rest.columns, formed.square().sum(0))
    assert rest.energy == pytest.approx(float(formed.square().sum()))


def test_scales_are_those_of_rows_and_columns(parts):
    matrix, left, right, formed = parts
    r, c = torch.rand(40).double(), torch.rand(60).double()
    c[5] = 0
    scaled = r[:, None] * formed * c * c
    rest = Remainder(matrix, left, right).scaled(r, c).scaled(torch.ones_like(r), c)
    assert torch.allclose(rest.columns, scaled.square().sum(0))
    exact = float(torch.linalg.matrix_norm(scaled, ord=2))
    assert 0.97 * exact < rest.spectral_norm() <= exact * (1 + 1e-12)


def test_an_isolated_singular_value_is_found_to_many_digits(parts):
    matrix, left, right, formed = parts
    spike = 100 * torch.outer(gaussian(40, 1, 5)[:, 0], gaussian(1, 60, 6)[0])
    rest = Remainder(
        matrix, torch.cat([left, spike[:, :1] / spike[0, 0]], 1), torch.cat([right, -spike[:1]], 0)
    )
    exact = float(torch.linalg.matrix_norm(formed + spike, ord=2))
    assert rest.spectral_norm() == pytest.approx(exact, rel=1e-9)


def test_nothing_is_left():
    left, right = gaussian(20, 2, 0), gaussian(2, 30, 1)
    rest = Remainder(left @ right, left, right)
    assert rest.spectral_norm() < 1e-12
    assert rest.energy < 1e-24


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_noise_is_told_from_records_without_forming_either(dtype):
    noise, records = gaussian(90, 120, 3), gaussian(90, 2, 4) @ gaussian(2, 120, 5)
    assert looks_independent(noise, noise.to(dtype), 0)
    assert not looks_independent(noise + 3 * records, (noise + 3 * records).to(dtype), 0)
