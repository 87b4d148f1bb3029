"""Which neurons both ends of local training settle, and what the search makes of the others."""

from __future__ import annotations

import pytest
import torch
from certify.settings import case
from hypothesis import given
from hypothesis import strategies as st

from gradaudit.linear.complete import completions
from gradaudit.linear.drift import SETTLED_DRIFTS, settled
from gradaudit.linear.half_space import plausible
from gradaudit.linear.pool import Pool
from gradaudit.linear.select import greedy_filter
from gradaudit.update import LocalTraining

LONG = LocalTraining(0.03, epochs=4, batch_size=3)


def parts(sample):
    """True directions, and the neurons that each record activates at either end."""
    problem = sample.problem
    inside = sample.inputs @ problem.factors.right
    gradients = problem.factors.left * problem.factors.values @ torch.linalg.inv(inside)
    directions = (problem.factors.left.T @ gradients).T
    weights, change = sample.update.weights, sample.update.delta
    ends = [
        sample.inputs @ (weights["fc1.weight"] + share * change["fc1.weight"]).T
        + weights["fc1.bias"]
        + share * change["fc1.bias"]
        for share in (0.0, 1.0)
    ]
    return directions / directions.norm(dim=1, keepdim=True), ends


def test_the_middle_and_the_drift_are_those_of_the_two_ends():
    sample = case(6, training=LONG)
    problem, (before, after) = sample.problem, parts(sample)[1]
    middle = sample.inputs @ problem.layer.weight.T + problem.layer.bias
    assert torch.allclose(middle, (before + after) / 2)
    inverse = torch.linalg.inv(parts(sample)[0].T)
    scales = inverse @ problem.factors.left.T @ problem.layer.bias_gradient
    drift = inverse @ problem.activation_drift.T / scales[:, None]
    assert torch.allclose(drift, (after - before) / 2)
    assert torch.allclose(inverse @ problem.activation_map.T / scales[:, None], middle)


def test_a_single_gradient_settles_everything():
    assert case(3).problem.activation_drift is None
    assert bool(settled(torch.tensor([1e-30, -1.0]), None).all())


@given(st.floats(0.1, 10), st.floats(-1, 1), st.integers(0, 10**6))
def test_settled_neurons_have_one_sign_at_both_ends_in_any_unit(unit, tilt, seed):
    generator = torch.Generator().manual_seed(seed)
    middle, drift = torch.randn(2, 50, generator=generator, dtype=torch.float64)
    drift = tilt * drift
    certain = settled(middle, drift)
    assert bool(((middle - drift) * (middle + drift) > 0)[certain].all())
    assert torch.equal(certain, settled(-unit * middle, unit * drift))


def test_a_neuron_that_came_back_is_not_settled_by_its_ends():
    # Both ends agree on the first neuron, while others moved by far more than its distance.
    middle, drift = torch.tensor([0.1, 5.0, -5.0]), torch.tensor([0.0, 1.0, -1.0])
    assert settled(middle, drift).tolist() == [False, True, True]
    assert SETTLED_DRIFTS > 1


def test_records_that_changed_sides_pass_the_half_space_test_and_mixtures_do_not():
    sample = case(8, neurons=200, training=LONG)
    directions, (before, after) = parts(sample)
    flipped = ((before > 0) != (after > 0)).any(1)
    assert int(flipped.sum()) >= 4, "the case is to have neurons that change sides"
    assert bool(plausible(sample.problem, directions).all())
    mixtures = torch.nn.functional.normalize(directions + 0.5 * directions.roll(1, 0), dim=1)
    assert not bool(plausible(sample.problem, mixtures).any())


@pytest.mark.parametrize("bias", [True, False])
def test_the_filter_matches_the_true_directions_perfectly(bias):
    sample = case(6, neurons=200, training=LONG, bias=bias)
    if bias:
        directions = parts(sample)[0]
    else:
        inside = sample.inputs @ sample.problem.factors.right
        directions = torch.linalg.inv(inside).T * sample.problem.factors.values
        directions = directions / directions.norm(dim=1, keepdim=True)
    pool = Pool(sample.problem)
    pool.add(directions, sample.problem.zeros_needed + 1)
    chosen = greedy_filter(sample.problem, pool)
    assert chosen is not None
    assert chosen.matching == 1.0


def test_the_last_direction_is_solved_for_from_settled_neurons():
    sample = case(6, neurons=200, training=LONG)
    directions = parts(sample)[0]
    for missing in range(6):
        others = torch.arange(6) != missing
        proposed = completions(sample.problem, directions[others])
        assert float((proposed @ directions[missing]).abs().max()) > 1 - 1e-9
