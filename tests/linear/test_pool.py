from __future__ import annotations

import pytest
import torch

from gradaudit.linear.pool import EXACT_REPEATS, Pool
from gradaudit.linear.problem import Setting
from linear.planted import gaussian, plant, search, worst_error


def unit(rows):
    return rows / rows.norm(dim=-1, keepdim=True)


def test_repeats_are_counted_and_kept_once():
    planted = plant(gaussian(4, 50, 0), width=100)
    pool = Pool(planted.problem)
    assert pool.add(planted.true_directions, 20) == 4
    for _ in range(EXACT_REPEATS + 3):
        assert pool.add(-planted.true_directions.float(), 20) == 0
    assert len(pool) == 4
    assert pool.hits.tolist() == [EXACT_REPEATS + 4] * 4


def test_zeros_are_those_of_the_truth_and_order_by_them():
    planted = plant(gaussian(4, 50, 0), width=100)
    pool = Pool(planted.problem)
    pool.add(planted.true_directions, 20)
    zeros = pool.zeros[pool.by_sparsity()].tolist()
    assert zeros == sorted(zeros, reverse=True)
    live = planted.problem.live
    truth = (planted.gradients[live] == 0).sum(0)
    for direction, count in zip(pool.directions, pool.zeros.tolist(), strict=True):
        match = (planted.true_directions @ direction).abs().argmax()
        assert count == int(truth[match])


def test_mixtures_enter_only_without_the_half_space_test():
    planted = plant(gaussian(4, 50, 0), width=160)
    zeros = planted.problem.vanishing(planted.true_directions)[0]
    assert int((zeros[0] & zeros[1]).sum()) > planted.problem.zeros_needed
    one, two = planted.true_directions[:2]
    # Made to vanish on one more row than the two share, so that its kernel is a line.
    row = planted.problem.sparse[~zeros[0] & ~zeros[1] & planted.problem.live][0]
    mixture = unit(one * (row @ two) - two * (row @ one))
    for tested in (True, False):
        pool = Pool(planted.problem, half_space_test=tested)
        pool.add(mixture[None], 1)
        mixed = len(pool) > 0 and float((pool.directions @ mixture).abs().max()) > 1 - 1e-9
        assert not (tested and mixed)


def test_nothing_is_added_from_nothing():
    planted = plant(gaussian(3, 50, 0), width=60)
    pool = Pool(planted.problem)
    assert pool.add(planted.problem.sparse.new_zeros(0, 3), 1) == 0
    assert len(pool) == pool.rejected == 0


def test_random_proposals_bring_nothing_but_true_directions():
    planted = plant(gaussian(3, 50, 0), width=60)
    pool = Pool(planted.problem)
    pool.add(unit(gaussian(50, 3, 1)), 1)
    agreement = (pool.directions @ planted.true_directions.T).abs()
    assert bool((agreement.amax(1) > 1 - 1e-10).all())


@pytest.mark.parametrize("difference", [0.1, 0.3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_record_and_its_noisy_copy_are_both_found(difference, dtype):
    records = gaussian(6, 100, 0)
    copy = records[:1] + difference * gaussian(1, 100, 9)
    planted = plant(torch.cat([records, copy]), width=400, dtype=dtype)
    inversion = search(planted.problem)
    assert inversion.matching == 1.0
    limit = 1e-10 if dtype is torch.float64 else 1e-5
    assert worst_error(inversion.batch.records, planted.records) < limit


def test_records_beside_inseparable_twins_are_still_exact():
    # Twins whose neurons fire alike cannot be told apart by sparsity; nobody else may suffer.
    records = gaussian(6, 100, 0)
    copy = records[:1] + 1e-3 * gaussian(1, 100, 9)
    planted = plant(torch.cat([records, copy]), width=200)
    fires = planted.gradients != 0
    assert torch.equal(fires[:, 0], fires[:, 6]), "choose another seed"
    inversion = search(planted.problem, submatrices=4000)
    distance = torch.cdist(planted.records, inversion.batch.records).amin(1)
    assert float(distance[1:6].max()) < 1e-10


def test_sparse_inputs_enter_a_pool_too():
    planted = plant(gaussian(4, 50, 0), width=100, setting=Setting.SPARSE_INPUT)
    pool = Pool(planted.problem)
    assert pool.add(planted.true_directions, 20) == 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_directions_are_one_as_far_as_noise_tells(dtype):
    planted = plant(gaussian(5, 60, 0), width=150, factor_like=dtype)
    problem, first = planted.problem, planted.true_directions
    pool = Pool(problem)
    # As far away as the noise of the rows allows, and further.
    away = unit(gaussian(5, 5, 3))
    reach = (problem.zero_tolerance(first) / (away @ problem.sparse.T).abs()).amin(1)
    for times, expected in ((0.5, True), (3.0, False)):
        other = unit(first + times * reach[:, None] * away)
        distance = (first - other).square().sum(1) / 2
        assert bool((distance > 1e-12).all()), "rounding would explain it"
        assert pool._same(first, other, distance).tolist() == [expected] * 5
        assert pool._same(-first, other, distance).tolist() == [expected] * 5
