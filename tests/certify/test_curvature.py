"""How much a match with the network excludes, where neurons are close to their boundaries too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from certify.settings import case, draw
from gradaudit.certify.by_network import NetworkJudge
from gradaudit.certify.curvature import curvature
from gradaudit.certify.layer import examine
from gradaudit.certify.network import Network

LABEL = torch.tensor(0)


@pytest.fixture(params=["twice", "by differences"])
def how(request, monkeypatch):
    """Whether the network can be differentiated twice."""
    if request.param == "by differences":

        def cannot(*_):
            raise RuntimeError("derivative is not implemented")

        monkeypatch.setattr(Network, "gradient_changes", cannot)
    return request.param


def at_a_boundary(record: Tensor, weight: Tensor, bias: Tensor, distance: float) -> Tensor:
    """The record moved until its most undecided neuron is so far from changing sides."""
    before = weight @ record + bias
    neuron = int(before.abs().argmin())
    row = weight[neuron]
    return record - (before[neuron] - distance) / row.square().sum() * row


def test_the_derivative_is_that_of_differences():
    sample = case(3, classes=4, activation="tanh", seed=2)
    network = sample.network
    network.prepare(sample.inputs, None)
    steps = draw(2, 40, 5)
    middle, changes = network.gradient_changes(sample.inputs[0], LABEL, steps)
    around = [sample.inputs[:1] + sign * 1e-5 * steps for sign in (1, -1)]
    ahead, behind = (network.activation_gradients(x, LABEL.expand(2)) for x in around)
    assert torch.allclose(middle, (ahead + behind) / 2, rtol=1e-6)
    assert torch.allclose(changes, (ahead - behind) / 2e-5, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 10])
def test_differences_find_what_derivatives_do(monkeypatch, classes):
    sample = case(3, classes=classes, activation="tanh", seed=2)
    sample.network.prepare(sample.inputs, None)
    exact = [curvature(sample.network, record, LABEL) for record in sample.inputs]

    def cannot(*_):
        raise RuntimeError("derivative is not implemented")

    monkeypatch.setattr(Network, "gradient_changes", cannot)
    found = [curvature(sample.network, record, LABEL) for record in sample.inputs]
    assert found == pytest.approx(exact, rel=1e-3)
    assert min(exact) > 1e-4


@pytest.mark.parametrize("distance", [0.0, 1e-12, 1e-7])
def test_a_neuron_about_to_change_sides_is_no_slope(how, distance):
    """With two classes a ReLU network turns nowhere; once, this counted as a turn of thousands."""
    sample = case(1, classes=2, hidden=(20, 20), seed=4)
    layer = sample.problem.layer
    record = at_a_boundary(sample.inputs[0], layer.weight, layer.bias, distance)
    sample.network.prepare(record[None], None)
    assert curvature(sample.network, record, LABEL) == 0.0


def test_such_a_record_is_not_confirmed_alone():
    """Nothing but its own boundaries tells it from a mean of two."""
    plain = case(1, neurons=30, classes=2, hidden=(20, 20), seed=4)
    layer = plain.problem.layer
    record = at_a_boundary(plain.inputs[0], layer.weight, layer.bias, 1e-9)
    sample = case(1, neurons=30, classes=2, hidden=(20, 20), seed=4, inputs=record[None])
    found = examine(sample.problem, sample.inputs, True)
    sample.network.prepare(sample.inputs, None)
    judge = NetworkJudge(sample.problem, sample.inputs, found, sample.network, sign=1.0, total=1.0)
    assert judge.all_matched
    assert not judge.confirms(0)
