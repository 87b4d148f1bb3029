from __future__ import annotations

import itertools
import math

import pytest
import torch
from linear.planted import gaussian, plant, seeded
from scipy.stats import chi2

from gradaudit.linear.pool import Pool
from gradaudit.linear.proposers import SubmatrixSampler
from gradaudit.linear.proposers.submatrix import sample_subsets
from gradaudit.theory import coupon_collector


@pytest.mark.parametrize(("population", "size"), [(7, 1), (7, 3), (7, 6), (7, 7), (5, 0)])
def test_subsets_have_no_repeats_and_stay_inside(population, size):
    subsets = sample_subsets(500, population, size, seeded(0))
    assert subsets.shape == (500, size)
    for subset in subsets.tolist():
        assert len(set(subset)) == size
        assert all(0 <= element < population for element in subset)


@pytest.mark.parametrize(("population", "size"), [(6, 2), (7, 3), (6, 5)])
def test_every_subset_is_as_likely(population, size):
    draws = 20_000
    counts = dict.fromkeys(itertools.combinations(range(population), size), 0)
    for subset in sample_subsets(draws, population, size, seeded(3)).tolist():
        counts[tuple(sorted(subset))] += 1
    expected = draws / math.comb(population, size)
    statistic = sum((count - expected) ** 2 / expected for count in counts.values())
    # A fair sampler exceeds this quantile once in a million seeds.
    assert statistic < chi2.isf(1e-6, len(counts) - 1)


def test_kernels_vanish_on_rows_of_their_own():
    # In float64, on at least b - 1 rows each, whatever the submatrix.
    problem = plant(gaussian(6, 40, 1), width=60).problem
    sampler = SubmatrixSampler(problem, dtype=torch.float64)
    kernels = sampler._kernels(300, seeded(0))
    values = (kernels @ problem.unit_rows.T).abs().sort(dim=1).values
    assert torch.allclose(kernels.norm(dim=1), torch.ones(300).double())
    assert float(values[:, : problem.batch_size - 1].median()) < 1e-14
    assert float(values[:, problem.batch_size - 2].max()) < 1e-9


def every_direction_by_enumeration(problem) -> list[torch.Tensor]:
    """Kernels of all submatrices of full rank that vanish on more rows than any kernel does."""
    rows, found = problem.unit_rows, []
    for chosen in itertools.combinations(range(len(rows)), problem.batch_size - 1):
        _, values, right = torch.linalg.svd(rows[list(chosen)], full_matrices=True)
        if float(values[-1]) < 1e-9:
            continue
        kernel = right[-1]
        zeros = int(((rows @ kernel).abs() < 1e-9).sum())
        known = any(abs(float(kernel @ other)) > 1 - 1e-12 for other in found)
        if zeros > problem.zeros_needed and not known:
            found.append(kernel)
    return found


@pytest.mark.parametrize(("batch", "seed"), [(2, 1), (3, 2), (3, 5), (4, 7)])
def test_the_sampler_finds_what_trying_all_submatrices_finds(batch, seed):
    planted = plant(gaussian(batch, 20, seed), width=24, seed=seed)
    problem = planted.problem
    exhaustive = every_direction_by_enumeration(problem)
    pool = Pool(problem, half_space_test=False)
    sampler, generator = SubmatrixSampler(problem), seeded(0)
    for _ in range(6):
        pool.add(sampler.propose(generator, problem.zeros_needed + 1).directions, 1)
    assert exhaustive, "nothing to find: choose another seed"
    assert len(pool) == len(exhaustive)
    agreement = (pool.directions @ torch.stack(exhaustive).T).abs()
    assert torch.allclose(agreement.amax(1), torch.ones(len(pool)).double(), atol=1e-10)
    # The true directions sparse enough to prove themselves are among them.
    zeros, _ = problem.vanishing(planted.true_directions)
    for direction in planted.true_directions[zeros.sum(1) > problem.zeros_needed]:
        assert float((pool.directions @ direction).abs().max()) > 1 - 1e-12


def true_hit_rates(planted) -> list[float]:
    """Fraction of all submatrices whose kernel is each true direction, by enumeration."""
    rows = planted.problem.unit_rows
    counts = [0] * len(planted.true_directions)
    total = 0
    for chosen in itertools.combinations(range(len(rows)), planted.problem.batch_size - 1):
        total += 1
        picked = rows[list(chosen)]
        if float(torch.linalg.svdvals(picked)[-1]) < 1e-9:
            continue
        for index, direction in enumerate(planted.true_directions):
            counts[index] += float((picked @ direction).abs().max()) < 1e-9
    return [count / total for count in counts]


def test_hits_are_as_frequent_as_enumeration_says():
    planted = plant(gaussian(3, 20, 2), width=24, seed=2)
    rates = true_hit_rates(planted)
    sampler, tried = SubmatrixSampler(planted.problem, round_size=8192), 8192
    kernels = sampler._kernels(tried, seeded(5)).double()
    for rate, direction in zip(rates, planted.true_directions, strict=True):
        hits = int(((kernels @ direction).abs() > 1 - 1e-6).sum())
        # Five standard errors: a fair sampler fails once in 600,000 seeds per record.
        assert abs(hits / tried - rate) < 5 * (rate * (1 - rate) / tried) ** 0.5 + 1e-4


def submatrices_until_complete(planted, seed: int) -> int:
    """Counted one block of 64 at a time."""
    problem = planted.problem
    sampler, generator = SubmatrixSampler(problem, round_size=64), seeded(seed)
    pool, tried, truth = Pool(problem), 0, planted.true_directions
    found = torch.zeros(len(truth), dtype=torch.bool)
    while not bool(found.all()) and tried < 200_000:
        proposals = sampler.propose(generator, int(0.4 * len(problem.unit_rows)))
        tried += proposals.tried
        if pool.add(proposals.directions, 1):
            found = ((truth @ pool.directions.T).abs() > 1 - 1e-9).any(1)
    return tried


def test_the_number_of_submatrices_is_a_coupon_collector_s():
    batch, width, seeds = 8, 600, 6
    counted, predicted = 0.0, 0.0
    for seed in range(seeds):
        planted = plant(gaussian(batch, 100, seed), width=width, seed=seed)
        counted += submatrices_until_complete(planted, seed)
        # The true rate at which directions are hit: none of the others may be hit too.
        sampler = SubmatrixSampler(planted.problem, dtype=torch.float64)
        kernels = sampler._kernels(8192, seeded(seed + 99))
        hits = ((kernels @ planted.true_directions.T).abs() > 1 - 1e-9).any(1)
        predicted += coupon_collector(batch) / float(hits.double().mean())
    # The mean of six has a spread of 15 %, and splitting planes gains a little.
    assert 1 / 2 < counted / predicted < 1.6


def test_the_same_seed_gives_the_same_proposals():
    problem = plant(gaussian(6, 40, 1), width=200).problem
    once, again, other = (
        SubmatrixSampler(problem).propose(seeded(seed), 60).directions for seed in (1, 1, 2)
    )
    assert torch.equal(once, again)
    assert once.shape != other.shape or not torch.equal(once, other)


def test_rounds_double_up_to_their_size_and_obey_the_limit():
    problem = plant(gaussian(3, 20, 1), width=40).problem
    sampler, generator = SubmatrixSampler(problem, round_size=1000), seeded(0)
    assert [sampler.propose(generator, 10).tried for _ in range(4)] == [256, 512, 1000, 1000]
    assert sampler.propose(generator, 10, at_most=7).tried == 7


def test_two_records_need_single_rows():
    planted = plant(gaussian(2, 30, 0), width=50)
    proposals = SubmatrixSampler(planted.problem).propose(seeded(0), 9)
    agreement = (proposals.directions.double() @ planted.true_directions.T).abs()
    assert bool((agreement.amax(0) > 1 - 1e-6).all())


def test_asking_for_more_zeros_than_there_are_rows_tries_nothing():
    problem = plant(gaussian(3, 20, 1), width=10).problem
    proposals = SubmatrixSampler(problem).propose(seeded(0), 11)
    assert len(proposals.directions) == 0
    assert proposals.tried == 256
