from __future__ import annotations

import itertools

import pytest
import torch

from gradaudit.linear.pool import Pool
from gradaudit.linear.problem import Setting
from gradaudit.linear.select import _Scorer, greedy_filter, sparsest_basis
from linear.planted import gaussian, plant


def unit(rows):
    return rows / rows.norm(dim=-1, keepdim=True)


def pool_of(problem, directions) -> Pool:
    """A pool with just these directions, whatever they are worth."""
    pool = Pool(problem, half_space_test=False)
    pool._append(directions, torch.ones(len(directions), dtype=torch.int64))
    return pool


def tempting(planted, extra: int, seed: int = 0) -> Pool:
    """True directions beside mixtures that claim to be sparser than they."""
    true = planted.true_directions
    weights = gaussian(extra, len(true), seed)
    pool = pool_of(planted.problem, torch.cat([true, unit(weights @ true)]))
    pool.zeros[len(true) :] = pool.zeros.max() + 1
    return pool


def direct_matching(planted, directions) -> float:
    """Definition 4.1, written out: signs of W X + bias against zeros of U Q."""
    problem = planted.problem
    inverse = torch.linalg.inv(directions.T)
    scale = inverse @ (problem.factors.left.T @ problem.layer.bias_gradient)
    records = (inverse * problem.factors.values) @ problem.factors.right.T / scale[:, None]
    before = records @ problem.layer.weight.T + problem.layer.bias
    zero, active = problem.pattern(directions)
    judged = zero | active
    return float((((before > 0) == ~zero) & judged).sum() / judged.sum())


@pytest.mark.parametrize("setting", list(Setting))
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_truth_matches_perfectly(setting, bias, dtype):
    planted = plant(gaussian(5, 50, 1), width=100, setting=setting, bias=bias, dtype=dtype)
    selection = greedy_filter(planted.problem, pool_of(planted.problem, planted.true_directions))
    assert selection.matching == 1.0
    assert selection.swaps == 0
    assert sorted(selection.chosen.tolist()) == list(range(5))


def test_a_pool_that_does_not_span_selects_nothing():
    planted = plant(gaussian(5, 50, 1), width=100)
    true = planted.true_directions
    mixture = unit(true[0] + true[1])[None]
    pool = pool_of(planted.problem, torch.cat([true[:4], mixture, mixture]))
    assert greedy_filter(planted.problem, pool) is None


def test_rank_one_updates_score_as_direct_computation_does():
    planted = plant(gaussian(4, 50, 2), width=60)
    pool = tempting(planted, 3)
    scorer = _Scorer(planted.problem, pool)
    chosen = torch.tensor([0, 4, 2, 5])
    assert scorer.score(chosen) == pytest.approx(direct_matching(planted, pool.directions[chosen]))
    best = max(
        direct_matching(planted, pool.directions[swapped])
        for position in range(4)
        for candidate in (1, 3, 6)
        for swapped in [torch.where(torch.arange(4) == position, candidate, chosen)]
    )
    score, position, candidate = scorer.best_swap(chosen, [1, 3, 6], lambda: False)
    assert score == pytest.approx(best)
    chosen[position] = candidate
    assert scorer.score(chosen) == pytest.approx(best)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_second_stage_repairs_a_wrong_first_one(seed):
    planted = plant(gaussian(4, 60, seed), width=150, seed=seed)
    pool = tempting(planted, 1, seed)
    first = greedy_filter(planted.problem, pool, second_stage=False)
    assert 4 in first.chosen.tolist()
    assert first.matching < 1.0
    second = greedy_filter(planted.problem, pool)
    assert second.matching == 1.0
    assert second.swaps == 1
    assert sorted(second.chosen.tolist()) == [0, 1, 2, 3]


def test_swaps_end_when_the_time_is_up_with_the_best_so_far():
    planted = plant(gaussian(4, 60, 0), width=150, seed=0)
    pool = tempting(planted, 3)
    first = greedy_filter(planted.problem, pool, second_stage=False)
    whole = greedy_filter(planted.problem, pool)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > allowed

    for allowed in range(4):
        asked = 0
        cut = greedy_filter(planted.problem, pool, stop=stop)
        # Once when it was up, and once more by the loop around it.
        assert asked <= allowed + 2
        assert first.matching <= cut.matching <= whole.matching
        assert bool(allowed) or cut.swaps == 0
    assert first.matching < whole.matching


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_subset_is_better_at_tiny_sizes(seed):
    planted = plant(gaussian(3, 40, seed), width=60, seed=seed)
    pool = tempting(planted, 2, seed)
    scores = {}
    for subset in itertools.combinations(range(len(pool)), 3):
        directions = pool.directions[list(subset)]
        if float(torch.linalg.svdvals(directions)[-1]) > 1e-6:
            scores[subset] = direct_matching(planted, directions)
    best = max(scores, key=scores.get)
    selection = greedy_filter(planted.problem, pool)
    assert tuple(sorted(selection.chosen.tolist())) == best == (0, 1, 2)
    assert selection.matching == pytest.approx(scores[best])


@pytest.mark.parametrize("seed", range(6))
def test_swaps_never_lower_the_matching(seed):
    planted = plant(gaussian(4, 40, seed), width=50, seed=seed)
    # A hard case: two true directions are missing.
    true = planted.true_directions[:2]
    weights = gaussian(8, 4, seed + 5)
    pool = pool_of(planted.problem, torch.cat([true, unit(weights @ planted.true_directions)]))
    first = greedy_filter(planted.problem, pool, second_stage=False)
    second = greedy_filter(planted.problem, pool)
    assert second.matching >= first.matching
    assert 0.0 <= first.matching <= 1.0
    assert second.swaps == 0 or second.matching > first.matching
    assert float(torch.linalg.svdvals(pool.directions[second.chosen])[-1]) > 1e-9


def test_the_basis_takes_the_first_of_dependent_rows():
    rows = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]]).double()
    assert sparsest_basis(unit(rows)).tolist() == [0, 2, 4]
    assert sparsest_basis(rows[:0]).tolist() == []


def test_near_duplicates_count_as_two():
    rows = unit(torch.tensor([[1.0, 0.0], [1.0, 1e-5]], dtype=torch.float64))
    assert sparsest_basis(rows).tolist() == [0, 1]
    assert sparsest_basis(unit(torch.tensor([[1.0, 0.0], [1.0, 1e-9]]).double())).tolist() == [0]


@pytest.mark.parametrize("setting", list(Setting))
def test_swaps_scored_in_parts_are_scored_the_same(monkeypatch, setting):
    planted = plant(gaussian(6, 50, 1), width=100, setting=setting)
    pool = tempting(planted, 3)
    whole = greedy_filter(planted.problem, pool)
    monkeypatch.setattr("gradaudit.linear.select.LARGEST_STACK", 1)
    parts = greedy_filter(planted.problem, pool)
    assert parts.swaps == whole.swaps >= 1
    assert parts.matching == whole.matching == 1.0
    assert torch.equal(parts.chosen, whole.chosen)
