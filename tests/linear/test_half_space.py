from __future__ import annotations

import pytest
import torch

from gradaudit.linear.half_space import (
    _all_but_hidden,
    _separable_but_for,
    _separated_by_regression,
    plausible,
)
from gradaudit.linear.problem import Setting
from linear.planted import gaussian, plant, seeded


def unit(vector):
    return vector / vector.norm()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_true_directions_are_plausible_in_every_precision(dtype, bias, seed):
    planted = plant(gaussian(5, 60, seed), width=150, seed=seed, bias=bias, factor_like=dtype)
    assert planted.problem.batch_size == 5
    assert bool(plausible(planted.problem, planted.true_directions).all())
    assert bool(plausible(planted.problem, -planted.true_directions).all())


def test_an_active_neuron_below_the_tolerance_does_not_refute_a_record():
    # Float16 hides an active entry of this record (it was refused before the allowance).
    planted = plant(gaussian(4, 100, 0), width=200, seed=0, factor_like=torch.float16)
    direction = planted.true_directions[3]
    problem = planted.problem
    zero, informative = problem.vanishing(direction[None])
    hidden = zero[0] & informative[0] & (planted.gradients[:, 3] != 0)
    assert int(hidden.sum()) == 1
    assert bool(plausible(problem, direction[None])[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("setting", list(Setting))
def test_mixtures_of_two_records_are_refused(dtype, sign, setting):
    planted = plant(gaussian(4, 60, 1), width=200, factor_like=dtype, setting=setting)
    directions = planted.true_directions
    pairs = [unit(directions[i] + sign * directions[j]) for i in range(4) for j in range(i)]
    fits = plausible(planted.problem, torch.stack(pairs))
    if setting is Setting.SPARSE_INPUT:
        # Positive mixtures of non-negative inputs are non-negative; only differences give away.
        signs = torch.sign(directions @ planted.problem.sparse.T).sum(1)
        assert len(set(torch.sign(signs).tolist())) >= 1
        mixed = directions * torch.sign(signs)[:, None]
        both = torch.stack([unit(mixed[0] - mixed[1]), unit(mixed[0] + mixed[1])])
        assert plausible(planted.problem, both).tolist() == [False, True]
    else:
        assert not bool(fits.any())


def test_random_directions_are_refused():
    planted = plant(gaussian(4, 60, 1), width=120)
    directions = torch.stack([unit(direction) for direction in gaussian(10, 4, 5)])
    assert not bool(plausible(planted.problem, directions).any())


def test_as_many_rows_as_allowed_are_dropped_and_no_more():
    generator = seeded(0)
    points = torch.randn(200, 5, generator=generator, dtype=torch.float64)
    truth = torch.randn(5, generator=generator, dtype=torch.float64)
    active = points @ truth > 0
    labels = active.clone()
    wrong = torch.nonzero(active)[:2, 0]
    labels[wrong] = False
    signed = (points * torch.where(labels, 1.0, -1.0)[:, None]).numpy()
    assert _separable_but_for(signed, 5, labels.numpy(), hidden=2)
    assert not _separable_but_for(signed, 5, labels.numpy(), hidden=1)


def test_inactive_rows_called_active_are_never_excused():
    points = gaussian(200, 5, 0)
    active = points[:, 0] > 0
    labels = active.clone()
    labels[torch.nonzero(~active)[:1, 0]] = True
    signed = (points * torch.where(labels, 1.0, -1.0)[:, None]).numpy()
    assert not _separable_but_for(signed, 5, labels.numpy(), hidden=3)


@pytest.mark.parametrize("seed", [0, 1])
def test_hidden_rows_do_not_turn_the_separator_past_others(seed):
    # Active neurons far from the boundary, whose entries are so small that they pass for zeros.
    count = 12
    planted = plant(gaussian(12, 60, seed), width=500, seed=seed)
    problem, layer = planted.problem, planted.layer
    zero, active = problem.pattern(planted.true_directions[:1])
    judged = (zero | active)[0] & problem.live
    before = (planted.records[0] @ layer.weight.T + layer.bias) * active[0]
    shown = active[0].clone()
    shown[before.argsort(descending=True)[:count]] = False
    against = _separated_by_regression(problem, judged[None], shown[None])[1][0]
    assert int(against.sum()) > count
    assert _all_but_hidden(problem, judged, shown, against, count)
    assert not _all_but_hidden(problem, judged, shown, against, count - 1)
