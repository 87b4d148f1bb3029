from __future__ import annotations

import pytest
import torch

from gradaudit.noisy import factors_above_noise, measure_noise, noise_edge
from tests.noisy.material import BATCH_SIZE, noisy_case


def planted(shape: tuple[int, int], strengths: list[float], seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    left = torch.linalg.qr(torch.randn(shape[0], len(strengths), generator=generator).double()).Q
    right = torch.linalg.qr(torch.randn(shape[1], len(strengths), generator=generator).double()).Q
    return left * torch.tensor(strengths).double() @ right.T + noise


@pytest.mark.parametrize("shape", [(60, 200), (200, 60), (100, 100)])
@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_has_no_rank_and_its_own_level(shape, seed):
    # A level's relative error is 1 / sqrt(2 m n), 0.7 % at most here: 3 % is four sigma, and 15
    # cases fail falsely with a probability below 1e-3.
    level, rank = measure_noise(torch.linalg.svdvals(planted(shape, [], seed)), shape)
    assert rank == 0
    assert level == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_what_stands_above_the_edge_is_counted_and_does_not_raise_the_level(seed):
    shape = (80, 150)
    edge = noise_edge(shape, 1.0)
    values = torch.linalg.svdvals(planted(shape, [50 * edge, 3 * edge, 1.5 * edge], seed))
    level, rank = measure_noise(values, shape)
    assert rank == 3
    assert level == pytest.approx(1.0, rel=0.03)


def test_a_known_level_decides_the_rank():
    shape = (80, 150)
    values = torch.linalg.svdvals(planted(shape, [60.0], 1))
    assert measure_noise(values, shape)[1] == 1
    assert measure_noise(values, shape, known=10.0) == (10.0, 0)


def test_the_level_scales_with_the_gradient():
    values = torch.linalg.svdvals(planted((60, 90), [100.0], 2))
    level, rank = measure_noise(values, (60, 90))
    scaled, same = measure_noise(values * 1e-9, (60, 90))
    assert same == rank == 1
    assert scaled == pytest.approx(1e-9 * level)


def test_factors_keep_what_stands_above_noise_and_say_so():
    case = noisy_case(0.05)
    spectrum = case.problem.factors.spectrum
    assert case.problem.batch_size == spectrum.numerical_rank == BATCH_SIZE
    assert not spectrum.has_gap
    assert spectrum.noise_level == pytest.approx(case.level, rel=0.03)
    assert "stand above the edge of noise" in spectrum.explanation
    assert bool((case.problem.factors.row_noise == spectrum.noise_level).all())
    assert factors_above_noise(case.problem.factors, 1.0, 2).rank == 2


def test_values_that_are_not_listed_count_by_their_energy():
    values = torch.linalg.svdvals(planted((300, 400), [150.0, 130.0, 120.0, 110.0], 3))
    whole = measure_noise(values, (300, 400))
    listed, others = values[:40], values[40:]
    beyond = float(others.square().sum())
    assert measure_noise(listed, (300, 400), beyond=beyond) == pytest.approx(whole)
    # Without them noise looks weak, and its own values like records.
    level, rank = measure_noise(listed, (300, 400))
    assert level < whole[0] / 2
    assert rank > whole[1]
