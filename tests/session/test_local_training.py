"""Audits of what local training changed."""

from __future__ import annotations

import pytest
import torch
from certify.settings import audited, draw
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.clients import FedAvg, FedSGD
from gradaudit.evidence import Status
from gradaudit.models import mlp
from gradaudit.update import GradientStep, LocalTraining, Update

LABELS = [0, 1, 2, 0, 1, 2]


def client(training: LocalTraining, dtype: str = "float64", **options):
    return FedAvg(mlp(40, [150, 30], 3, seed=1, dtype=dtype), training=training, **options)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "training",
    [
        LocalTraining(0.01, epochs=3, batch_size=2),
        LocalTraining(0.01, epochs=3, batch_size=4, momentum=0.9),
        LocalTraining(0.01, epochs=3, batch_size=2, momentum=0.5, nesterov=True),
        LocalTraining(0.01, epochs=3, batch_size=2, weight_decay=0.1),
        LocalTraining(0.1, epochs=2, batch_size=6),
    ],
    ids=["plain", "momentum", "nesterov", "decay", "a large rate"],
)
def test_records_of_local_training_are_recovered(training, dtype):
    update, truth = client(training, dtype).update(draw(6, 40, 2), LABELS)
    result = audited(update, truth, budget=Budget(seconds=60))
    assert result.status is Status.RECOVERED, result.cause
    assert result.certificate.kind == "layer"
    assert result.cause.startswith("The change of layer 'fc1' holds 6 distinct records")
    order = [int(x) for x in nearest(result.records, truth.inputs)]
    found = [label for label in result.labels if label is not None]
    assert found, "labels are named"
    assert all(
        label is None or label == LABELS[j] for label, j in zip(result.labels, order, strict=True)
    )
    assert any("client's secret" in line for line in result.assumptions)


def nearest(records, inputs):
    return torch.cdist(records.double(), inputs.double()).argmin(1)


def test_the_gradient_alone_would_not_have_certified_it():
    """The same difference, taken for a single step's: neurons that changed sides refuse it."""
    update, _ = client(LocalTraining(0.1, epochs=4, batch_size=2)).update(draw(6, 40, 2), LABELS)
    single = Update(update.weights, delta=update.delta, step=GradientStep(0.1))
    budget = Budget(seconds=10)
    assert audit(update, budget=budget).status is Status.RECOVERED
    assert audit(single, layer="fc1", budget=budget).records_recovered == 0


@settings(max_examples=5)
@given(st.integers(1, 6), st.integers(0, 1000))
def test_one_epoch_of_one_batch_is_one_gradient(size, seed):
    model = mlp(30, [100, 20], 3, seed=seed, dtype=torch.float64)
    inputs, labels = draw(size, 30, seed), [i % 3 for i in range(size)]
    trained = audit(FedAvg(model, training=LocalTraining(0.1)).update(inputs, labels)[0])
    single = audit(FedSGD(model).update(inputs, labels)[0])
    assert trained.status is single.status
    assert trained.certificate.kind == single.certificate.kind == "full_gradient"
    # Rounding of the difference may change the order in which records are found.
    order = nearest(trained.records, single.records)
    assert list(trained.labels) == [single.labels[j] for j in order.tolist()]
    assert torch.allclose(trained.records, single.records[order], atol=1e-6)


def test_layers_behind_trained_ones_are_refused_and_those_behind_frozen_ones_are_not():
    training = LocalTraining(0.01, epochs=3, batch_size=2)
    of = client(training)
    update, _ = of.update(draw(6, 40, 2), LABELS)
    result = audit(update, layer="fc2")
    assert result.status is Status.NOT_APPLICABLE
    assert "since 'fc1' before it was trained as well" in result.cause
    model = mlp(40, [60, 150, 30], 3, seed=1, dtype=torch.float64)
    model.fc1.requires_grad_(False)
    inputs = draw(6, 40, 2)
    update, _ = FedAvg(model, training=training).update(inputs, LABELS)
    result = audit(update, budget=Budget(seconds=60))
    assert result.layer == "fc2"
    assert result.records_recovered == 6
    with torch.no_grad():
        features = model[:3](inputs)
    assert float(torch.cdist(result.records, features).amin(1).max()) < 1e-6


def test_batch_normalisation_before_a_layer_is_training_before_it():
    layers = [nn.Flatten(), nn.BatchNorm1d(40), nn.Linear(40, 150), nn.ReLU(), nn.Linear(150, 3)]
    model = nn.Sequential(*layers).double()
    training = LocalTraining(0.01, epochs=3, batch_size=2)
    update, _ = FedAvg(model, training=training).update(draw(6, 40, 2), LABELS)
    result = audit(update, budget=Budget(seconds=10))
    assert result.records_recovered == 0
    assert result.status is Status.NOT_APPLICABLE


def test_an_unknown_number_of_steps_counts_as_several():
    training = LocalTraining(0.01, epochs=1, batch_size=3)
    update, truth = client(training).update(draw(6, 40, 2), LABELS)
    unknown = Update(update.weights, delta=update.delta, step=training)
    assert unknown.several_steps
    assert audited(unknown, truth, budget=Budget(seconds=60)).status is Status.RECOVERED
