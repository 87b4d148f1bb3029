"""Whether zeros single a direction out, and whether accidents may be what does."""

from __future__ import annotations

import pytest
import torch
from linear.planted import gaussian, plant

from gradaudit.certify.determined import determined_often, determined_once


def accidental(planted, others: int):
    """A mixture of several records that vanishes where all of them do, and as often by accident."""
    true = planted.true_directions[: others + 1]
    values = true @ planted.problem.sparse.T
    common = planted.problem.pattern(true)[0].all(0)
    everywhere = torch.nonzero((~planted.problem.pattern(true)[0]).all(0))[:others, 0]
    shares = torch.linalg.solve(values[1:, everywhere].T, -values[0, everywhere])
    mixture = torch.nn.functional.normalize(true[0] + shares @ true[1:], dim=0)
    zeros = common.clone()
    zeros[everywhere] = True
    return mixture[None], common[None], zeros[None]


@pytest.mark.parametrize("others", [1, 2])
def test_accidents_single_a_mixture_out_once_but_not_twice(others):
    planted = plant(gaussian(6, 50, 1), width=300)
    mixture, common, zeros = accidental(planted, others)
    assert not determined_once(planted.problem, mixture, common).any()
    assert determined_once(planted.problem, mixture, zeros).all()
    assert not determined_often(planted.problem, mixture, zeros, times=2).any()


@pytest.mark.parametrize("times", [1, 2, 3])
def test_records_are_singled_out_again_and_again(times):
    planted = plant(gaussian(6, 50, 1), width=300)
    true = planted.true_directions
    zeros = planted.problem.pattern(true)[0]
    assert determined_often(planted.problem, true, zeros, times=times).all()


def test_no_part_is_left_when_zeros_are_just_enough():
    planted = plant(gaussian(6, 50, 1), width=300)
    true = planted.true_directions[:1]
    zeros = planted.problem.pattern(true)[0]
    few = zeros & (zeros.cumsum(1) <= 7)
    assert determined_once(planted.problem, true, few).all()
    assert not determined_often(planted.problem, true, few, times=2).any()
    assert determined_often(planted.problem, true, zeros & (zeros.cumsum(1) <= 30), times=2).all()


def test_a_rare_neuron_is_in_every_part():
    """Two records that differ in as many neurons as there are parts, wherever these stand."""
    planted = plant(gaussian(6, 50, 1), width=300)
    true = planted.true_directions
    silent = planted.problem.pattern(true)[0]
    apart = torch.nonzero(silent[0] & ~silent[1])[:, 0]
    zeros = silent[0] & silent[1]
    zeros[apart[[0, 1]]] = True
    assert determined_often(planted.problem, true[:1], zeros[None], times=2).all()
    zeros[apart[1]] = False
    assert not determined_often(planted.problem, true[:1], zeros[None], times=2).any()
