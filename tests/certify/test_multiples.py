"""Records that differ in size alone, and are seen as their mean where two classes leave no more."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from certify.settings import case, draw
from certify.trials import Trial
from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.certify.by_network import CHANCE_WHOLE
from gradaudit.certify.multiples import multiples_show
from gradaudit.clients import FedSGD
from gradaudit.models import mlp
from gradaudit.result import AuditResult


def network(outputs: int, *, weights: float, biases: float, seed: int = 0) -> nn.Sequential:
    model = mlp(40, [120, 20], outputs, seed=seed, dtype="float64")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(weights if name.endswith("weight") else biases)
    return model


def trial(result: AuditResult, true: torch.Tensor) -> Trial:
    assert result.records is not None
    return Trial("audit", "multiples", result.records.double(), true, result.evidence)


def doubled(others: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    records = draw(2 + others, 40, seed)
    records[1] = 2 * records[0]
    return records, torch.tensor([0, 0] + [j % 2 for j in range(others)])


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("weights", [1e-3, 1e-6])
def test_a_record_and_its_double_are_not_one_of_half_again_the_size(weights, outputs):
    """Their slopes are one half each to within rounding: once, this was certified as one record."""
    model = network(outputs, weights=weights, biases=0.0)
    records, labels = doubled(0, 0)
    loss = "binary_cross_entropy" if outputs == 1 else "cross_entropy"
    update, _ = FedSGD(model, loss).update(records, labels)
    for given in (None, model):
        result = audit(update, model=given, loss=loss, budget=Budget(seconds=1))
        assert not result.status.leak_proven
        assert "Multiples of it" in result.cause


@pytest.mark.parametrize(("outputs", "others"), [(1, 1), (2, 1), (1, 3)])
def test_nor_where_no_network_can_be_asked(outputs, others):
    """Inputs of an inner layer: its zeros, and nothing else, spoke for their mean."""
    model = network(outputs, weights=1.0, biases=0.0)
    records, labels = doubled(others, 1)
    loss = "binary_cross_entropy" if outputs == 1 else "cross_entropy"
    update, _ = FedSGD(model, loss).update(records, labels)
    result = audit(update, loss=loss, layer="fc2", budget=Budget(seconds=1))
    assert not result.status.leak_proven


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_single_record_is_certified_where_its_weight_or_its_neurons_tell(outputs):
    """So that the tests above are not passed by certifying nothing."""
    loss = "binary_cross_entropy" if outputs == 1 else "cross_entropy"
    for weights, biases in ((1.0, 0.0), (1.0, 1.0)):
        model = network(outputs, weights=weights, biases=biases)
        update, truth = FedSGD(model, loss).update(draw(1, 40, 2), torch.tensor([0]))
        result = audit(update, loss=loss, budget=Budget(seconds=5))
        assert trial(result, truth.inputs).outcome() == "right, certified", result.cause


@pytest.mark.parametrize(
    ("classes", "weights", "biases", "tolerance", "shown"),
    [
        # The slope at the mean is not the mean of the slopes.
        (2, 1.0, 0.0, 1e-10, True),
        (2, 1.0, 0.0, 1e-2, False),
        # A neuron that fires for one of the two.
        (2, 1e-6, 1e-6, 1e-4, True),
        (2, 1e-6, 0.0, 1e-10, False),
        (10, 1.0, 0.0, 1e-6, True),
        (10, 1e-6, 0.0, 1e-10, False),
    ],
)
def test_what_tells_multiples(classes, weights, biases, tolerance, shown):
    sample = case(1, neurons=200, classes=classes, seed=3)
    with torch.no_grad():
        for name, value in sample.network._tensors.items():
            value.mul_(weights if name.endswith("weight") else biases)
    sample.network.prepare(sample.inputs, None)
    record, label = sample.inputs[0], torch.tensor(0)
    found = multiples_show(sample.network, record, label, tolerance=tolerance, weighed=True)
    assert found is shown


def test_a_weight_of_many_thousands_is_no_whole_number():
    """A part in ten thousand of it is more than one: anything would pass for whole."""
    model = network(2, weights=1.0, biases=1.0)
    inputs = draw(2, 40, 5).float()
    inputs[1] = inputs[0] + 1e-4 * inputs[1]
    update, _ = FedSGD(model.float()).update(inputs, torch.tensor([0, 0]))
    assert CHANCE_WHOLE < 1e-4 * 1e5
    for factor in (1e5, -1e5, 12345.678):
        scaled = type(update)(
            update.weights, {name: g * factor for name, g in update.gradient.items()}
        )
        result = audit(scaled, model=model, budget=Budget(seconds=5))
        assert not result.status.leak_proven
