from __future__ import annotations

import pytest
import torch

from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.noise import effective_dtype, looks_independent, row_noise
from gradaudit.linear.range_finder import FULL_SVD_SIDE
from linear.planted import gaussian, plant, seeded

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def low_rank(rows: int, columns: int, rank: int, seed: int = 0) -> torch.Tensor:
    return gaussian(rows, rank, seed) @ gaussian(rank, columns, seed + 1)


def factor(matrix, seed: int = 0, **options):
    return factor_gradient(matrix, generator=seeded(seed), **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("batch", "width", "inputs"), [(1, 50, 30), (4, 200, 100), (8, 300, 400)])
def test_the_rank_is_the_batch_size_in_every_dtype(dtype, batch, width, inputs):
    planted = plant(gaussian(batch, inputs, 3), width=width, factor_like=dtype)
    spectrum = planted.problem.factors.spectrum
    assert (spectrum.numerical_rank, spectrum.has_gap) == (batch, True)


@pytest.mark.parametrize("stored", [torch.float32, torch.float64])
def test_low_precision_is_seen_through_a_wider_dtype(stored):
    planted = plant(gaussian(6, 80, 1), width=120, factor_like=torch.bfloat16)
    as_stored = planted.layer.weight_gradient.to(stored)
    assert effective_dtype(as_stored) is torch.bfloat16
    assert factor(as_stored).rank == 6


def test_an_effective_dtype_is_never_coarser_than_the_entries():
    values = torch.tensor([[1.0, 1.0 + 2**-12]], dtype=torch.float64)
    assert effective_dtype(values) is torch.float32
    assert effective_dtype(values + 2**-40) is torch.float64
    # 1e-8 is below what float16 can hold, and 1e5 above it.
    assert effective_dtype(torch.tensor([[2.0**-30, 2.0**20 + 2**11]])) is torch.float32


def test_factors_reproduce_the_gradient():
    matrix = low_rank(40, 70, 5)
    factors = factor(matrix)
    rebuilt = (factors.left * factors.values) @ factors.right.T
    assert torch.allclose(rebuilt, matrix, atol=1e-12)
    assert torch.allclose(factors.left.T @ factors.left, torch.eye(5).double(), atol=1e-12)
    assert torch.allclose(factors.right.T @ factors.right, torch.eye(5).double(), atol=1e-12)
    assert factors.arithmetic_error < 1e-12


@pytest.mark.parametrize("rank", [3, 90, 200])
def test_the_sketch_agrees_with_the_full_decomposition(rank):
    # Ranks below, above and far above the first sketch's size.
    rows, columns = FULL_SVD_SIDE + 40, FULL_SVD_SIDE + 90
    matrix = low_rank(rows, columns, rank).to(torch.float32)
    factors = factor(matrix)
    exact = torch.linalg.svdvals(matrix.double())[:rank]
    assert factors.rank == rank
    assert torch.allclose(factors.values, exact, rtol=1e-9)
    assert float((matrix - (factors.left * factors.values) @ factors.right.T).norm()) < (
        1e-5 * float(matrix.norm())
    )


def test_a_large_full_rank_gradient_ends_in_the_full_decomposition():
    matrix = gaussian(FULL_SVD_SIDE + 8, FULL_SVD_SIDE + 30, 0)
    spectrum = factor(matrix).spectrum
    assert not spectrum.has_gap
    assert spectrum.numerical_rank == spectrum.largest_possible_rank == FULL_SVD_SIDE + 8
    assert "No gap" in spectrum.explanation


def test_the_sketch_depends_on_its_generator_only_by_rounding():
    matrix = low_rank(FULL_SVD_SIDE + 10, FULL_SVD_SIDE + 20, 6)
    one, other = factor(matrix, seed=1), factor(matrix, seed=2)
    assert torch.allclose(one.values, other.values, rtol=1e-12)
    assert torch.equal(factor(matrix, seed=1).values, one.values)


def test_nothing_but_zeros():
    factors = factor(torch.zeros(5, 7))
    assert factors.rank == 0
    assert factors.arithmetic_error == 0.0
    assert factors.left.shape == (5, 0)
    assert "zero in every entry" in factors.spectrum.explanation


def test_one_live_row_says_nothing_about_the_batch():
    matrix = torch.zeros(6, 9)
    matrix[2] = torch.arange(9.0) - 3.3
    spectrum = factor(matrix).spectrum
    assert (spectrum.numerical_rank, spectrum.has_gap) == (1, False)
    assert spectrum.largest_possible_rank == 1


def test_a_softmax_takes_one_rank_from_an_output_layer():
    gradient = gaussian(10, 40, 0)
    gradient -= gradient.mean(0)
    assert factor(gradient).spectrum.largest_possible_rank == 10
    spectrum = factor(gradient, output_layer=True).spectrum
    assert spectrum.largest_possible_rank == 9
    assert not spectrum.has_gap
    # Nine records fill it, eight do not.
    eight = low_rank(10, 40, 8)
    eight -= eight.mean(0)
    assert factor(eight, output_layer=True).spectrum.has_gap


def test_noise_leaves_a_gap_above_rounding():
    matrix = low_rank(60, 80, 4)
    noisy = matrix + 1e-4 * gaussian(60, 80, 7)
    factors = factor(noisy)
    assert (factors.rank, factors.spectrum.has_gap) == (4, True)
    assert float(factors.row_noise.mean()) == pytest.approx(1e-4, rel=0.1)
    assert float(factors.column_noise.mean()) == pytest.approx(1e-4, rel=0.1)
    assert "noise" in factors.spectrum.explanation


def test_loud_noise_leaves_none():
    noisy = low_rank(60, 80, 4) + gaussian(60, 80, 7)
    assert not factor(noisy).spectrum.has_gap


@pytest.mark.parametrize(
    ("inputs", "width", "batch"), [(12, 100, 64), (30, 100, 64), (784, 20, 300), (30, 300, 1000)]
)
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_many_records_far_from_zero_are_not_one_record_with_noise(inputs, width, batch, seed):
    records = torch.rand(batch, inputs, generator=seeded(seed), dtype=torch.float64) + 2
    spectrum = plant(records, width=width, seed=seed).problem.factors.spectrum
    assert not (spectrum.has_gap and spectrum.numerical_rank == 1)


@pytest.mark.parametrize("kind", ["gaussian", "uniform", "laplace", "difference of weights"])
def test_independent_noise_is_recognised(kind):
    planted = plant(gaussian(3, 50, 2), width=90)
    matrix = planted.layer.weight_gradient
    scale = 0.01 * matrix.square().mean().sqrt()
    if kind == "gaussian":
        observed = matrix + scale * gaussian(90, 50, 5)
    elif kind == "uniform":
        observed = matrix + scale * torch.rand(90, 50, generator=seeded(5))
        observed -= scale / 2
    elif kind == "laplace":
        draws = torch.distributions.Laplace(0.0, 1.0).icdf(
            torch.rand(90, 50, generator=seeded(5)).clamp(1e-6, 1 - 1e-6)
        )
        observed = matrix + scale * draws
    else:
        weight = planted.layer.weight.float()
        observed = ((weight - 1e-3 * matrix.float()) - weight).double()
    factors = factor(observed)
    assert (factors.rank, factors.spectrum.has_gap) == (3, True)
    left = (factors.left * factors.values) @ factors.right.T
    assert looks_independent(observed, observed - left, 3)


def test_rows_with_hardly_any_freedom_borrow_the_typical_noise():
    planted = plant(gaussian(8, 9, 1), width=100, dtype=torch.float32)
    factors = planted.problem.factors
    size = planted.layer.weight_gradient.double().square().mean(1).sqrt()
    relative = (factors.row_noise / size)[size > 0]
    # A single entry's own estimate is off by a factor of a hundred in one row of a hundred.
    assert float(relative.max() / relative.min()) < 30
    full = row_noise(torch.ones(4, 4), torch.zeros(4, 4), 4, torch.float32)
    assert bool((full > 1e-9).all())


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**-50, 2.0**50, 2.0**100])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_scale_decides_nothing(scale, dtype):
    matrix = low_rank(30, 50, 4).to(dtype)
    plain, scaled = factor(matrix), factor(matrix * scale)
    assert scaled.rank == plain.rank == 4
    assert scaled.spectrum.has_gap
    assert torch.allclose(scaled.values, plain.values * scale, rtol=1e-5)
    assert torch.allclose(scaled.row_noise, plain.row_noise * scale, rtol=0.5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_order_and_orientation_decide_nothing(dtype):
    matrix = plant(gaussian(5, 60, 4), width=70, factor_like=dtype).layer.weight_gradient
    plain = factor(matrix)
    rows = torch.randperm(70, generator=seeded(1))
    columns = torch.randperm(60, generator=seeded(2))
    for other in (matrix[rows], matrix[:, columns], matrix.T, -matrix):
        again = factor(other.contiguous())
        assert again.rank == plain.rank == 5
        assert again.spectrum.has_gap
        assert torch.allclose(again.values, plain.values, rtol=1e-9)
    assert torch.allclose(factor(matrix.T).row_noise, plain.column_noise, rtol=1e-4)


def test_duplicate_records_count_once():
    records = gaussian(4, 60, 0)
    planted = plant(torch.cat([records, records[:2]]), width=100)
    assert planted.problem.batch_size == 4


def test_the_rounding_of_weights_is_not_decomposed_and_changes_nothing():
    """A large difference of float32 weights: rounding of all ranks, far below the records."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.rand(1200, 600, generator=generator) - 0.5
    signal = torch.randn(1200, 20, generator=generator) @ torch.randn(20, 600, generator=generator)
    change = (weight + 1e-4 * signal) - weight
    whole = factor_gradient(change, generator=generator)
    sketched = factor_gradient(change, generator=generator, weight=weight)
    assert len(whole.spectrum.singular_values) == 600
    assert len(sketched.spectrum.singular_values) < 100
    assert whole.rank == sketched.rank == 20
    assert torch.allclose(whole.values, sketched.values, rtol=1e-12)
    outside = sketched.right - whole.right @ (whole.right.T @ sketched.right)
    assert float(outside.norm()) < 1e-10
    assert torch.allclose(whole.row_noise, sketched.row_noise, rtol=1e-6)


@pytest.mark.parametrize("strength", [1e-7, 1e-8, 1e-9, 1e-10])
def test_records_near_the_rounding_of_weights_are_seen_as_without_a_sketch(strength):
    generator = torch.Generator().manual_seed(3)
    weight = torch.rand(1200, 600, generator=generator).double() - 0.5
    signal = torch.randn(1200, 20, generator=generator) @ torch.randn(20, 600, generator=generator)
    after = (weight + strength * signal).float()
    change = after - weight.float()
    whole = factor_gradient(change, generator=generator).spectrum
    sketched = factor_gradient(change, generator=generator, weight=weight.float()).spectrum
    assert whole.has_gap == sketched.has_gap
    assert not whole.has_gap or whole.numerical_rank == sketched.numerical_rank == 20
