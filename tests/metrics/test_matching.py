from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradaudit.metrics import match


def best_by_brute_force(costs):
    few, many = sorted(costs.shape)
    table = costs if costs.shape[0] == few else costs.T
    return min(sum(table[i, p[i]] for i in range(few)) for p in permutations(range(many), few))


def rescaled_cost(record, truth):
    norm = record @ record
    factor = max(0.0, record @ truth / norm) if norm else 0.0
    return ((factor * record - truth) ** 2).sum()


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10_000), st.booleans())
def test_matching_is_the_best_of_all_permutations(found, true, seed, up_to_scale):
    generator = np.random.default_rng(seed)
    records, truth = generator.normal(size=(found, 3)), generator.normal(size=(true, 3))
    pairs = match(records, truth, up_to_scale=up_to_scale)
    assert len(pairs) == min(found, true)
    assert len({i for i, _, _ in pairs}) == len({j for _, j, _ in pairs}) == len(pairs)
    total = sum(((s * records[i] - truth[j]) ** 2).sum() for i, j, s in pairs)
    costs = np.array(
        [
            [rescaled_cost(r, t) if up_to_scale else ((r - t) ** 2).sum() for t in truth]
            for r in records
        ]
    )
    assert total == pytest.approx(best_by_brute_force(costs), rel=1e-9, abs=1e-12)


def test_close_records_are_told_apart_far_from_the_origin():
    truth = 1e6 + np.array([[0.0, 0.0], [1e-8, 0.0], [0.0, 2e-8]])
    assert [(i, j) for i, j, _ in match(truth[[2, 0, 1]], truth)] == [(1, 0), (2, 1), (0, 2)]


def test_extreme_scales_and_nothing():
    truth = np.eye(3)
    pairs = match(np.array([[0, 1e-140, 0], [1e150, 0, 0], [0, 0, 0]]), truth, up_to_scale=True)
    assert [(i, j) for i, j, _ in pairs] == [(1, 0), (0, 1), (2, 2)]
    np.testing.assert_allclose([s for _, _, s in pairs], [1e-150, 1e140, 0])
    for up_to_scale in (False, True):
        assert match(np.zeros((0, 3)), truth, up_to_scale=up_to_scale) == []
    assert len(match(np.full((2, 3), 1e200), truth)) == 2
