"""The last two directions are solved for, not searched."""

from __future__ import annotations

import pytest
import torch

from gradaudit.linear.complete import completions, repairs
from gradaudit.linear.problem import Setting
from linear.planted import gaussian, plant, seeded


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_the_missing_directions_are_among_the_candidates(missing, seed, bias):
    planted = plant(gaussian(9, 40, seed), width=100, seed=seed, bias=bias)
    order = torch.randperm(9, generator=seeded(seed))
    true = planted.true_directions[order]
    candidates = completions(planted.problem, true[missing:])
    agreement = (candidates @ true[:missing].T).abs()
    assert bool((agreement.amax(0) > 1 - 1e-10).all())


def test_the_found_ones_need_not_be_orthogonal_or_of_one_sign():
    planted = plant(gaussian(6, 40, 1), width=100)
    found = planted.true_directions[1:] * torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])[:, None]
    candidates = completions(planted.problem, found)
    assert float((candidates @ planted.true_directions[0]).abs().max()) > 1 - 1e-10


@pytest.mark.parametrize("missing", [0, 3, 6])
def test_more_than_two_are_left_to_the_search(missing):
    planted = plant(gaussian(6, 40, 1), width=100)
    assert len(completions(planted.problem, planted.true_directions[missing:])) == 0


def test_sparse_inputs_have_no_pattern_to_complete():
    planted = plant(gaussian(4, 40, 1), width=100, setting=Setting.SPARSE_INPUT)
    assert len(completions(planted.problem, planted.true_directions[1:])) == 0


def test_wrong_directions_give_no_right_ones():
    planted = plant(gaussian(8, 40, 1), width=100)
    wrong = torch.nn.functional.normalize(gaussian(7, 8, 2), dim=1)
    candidates = completions(planted.problem, wrong)
    assert float((candidates @ planted.true_directions.T).abs().max()) < 1 - 1e-6


@pytest.mark.parametrize("wrong", [0, 4, 8])
def test_a_single_wrong_direction_is_put_right(wrong):
    planted = plant(gaussian(9, 40, 3), width=100)
    true = planted.true_directions
    spoilt = true.clone()
    spoilt[wrong] = torch.nn.functional.normalize(true[wrong] - 0.7 * true[(wrong + 1) % 9], dim=0)
    candidates = repairs(planted.problem, spoilt)
    assert float((candidates @ true[wrong]).abs().max()) > 1 - 1e-10
