from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradaudit.certify.leftover import is_rounding, largest_singular_value, noise_check


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(20, 30), (200, 50), (30, 400)])
def test_rounding_is_noise(shape, dtype):
    gradient = normal(shape[0], 3) @ normal(3, shape[1], seed=1)
    rounded = gradient.to(dtype).double()
    check = noise_check(rounded, rounded - gradient, 1.0)
    assert check.passed
    assert 0.3 < check.value < 2
    assert is_rounding(rounded, rounded - gradient, torch.finfo(dtype).eps, None)
    assert not is_rounding(rounded, 100 * (rounded - gradient), torch.finfo(dtype).eps, None)


def test_a_constant_background_is_seen_once():
    """Four hundred columns with the same rounding error would look like a record."""
    record = torch.cat([torch.full((400,), -0.4242), torch.randn(100)]).double()
    gradient = torch.outer(normal(60), record)
    rounded = gradient.float().double()
    assert noise_check(rounded, rounded - gradient, 1.0).passed


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0])
def test_a_record_left_out_is_no_noise(size):
    gradient = normal(100, 3) @ normal(3, 200, seed=1)
    noise = 1e-8 * normal(100, 200, seed=2)
    hidden = size * torch.outer(normal(100, seed=3), normal(200, seed=4))
    assert noise_check(gradient, noise, 1.0).passed
    assert not noise_check(gradient, noise + hidden, 1.0).passed


def test_float64_leaves_nothing_to_look_at():
    gradient = normal(50, 3) @ normal(3, 60, seed=1)
    assert noise_check(gradient, 1e-16 * normal(50, 60), 1.0).value == 0.0
    assert noise_check(gradient, torch.zeros_like(gradient), 1.0).passed


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 99))
def test_the_spectral_norm_from_below(rows, columns, seed):
    matrix = normal(rows, columns, seed=seed)
    exact = float(torch.linalg.matrix_norm(matrix, 2))
    found = largest_singular_value(matrix)
    assert 0.8 * exact <= found <= exact * (1 + 1e-12)
    assert largest_singular_value(torch.zeros_like(matrix)) == 0.0


def test_the_rounding_of_weights_counts_for_a_difference():
    weight = normal(40, 50)
    change = 1e-4 * torch.outer(normal(40, seed=1), normal(50, seed=2))
    rounded = (weight.float() + change.float()) - weight.float()
    error = rounded.double() - change
    eps = torch.finfo(torch.float32).eps
    assert is_rounding(rounded.double(), error, eps, weight)
    assert not is_rounding(rounded.double(), error, eps, None)
