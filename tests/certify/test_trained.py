"""What is certified after several steps of training, and what never is."""

from __future__ import annotations

import pytest
import torch

from certify.settings import case, draw, errors
from gradaudit.certify import certify
from gradaudit.clients import FedAvg
from gradaudit.data import load_source
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Setting, build_problem
from gradaudit.models import mlp
from gradaudit.update import LocalTraining

TRAINING = LocalTraining(0.01, epochs=3, batch_size=3)


@pytest.mark.parametrize(
    "training",
    [
        TRAINING,
        LocalTraining(0.01, epochs=3, batch_size=3, momentum=0.9),
        LocalTraining(0.01, epochs=3, batch_size=3, momentum=0.9, nesterov=True),
        LocalTraining(0.01, epochs=6),
    ],
)
def test_the_true_batch_is_certified_with_its_labels(training):
    sample = case(8, neurons=150, training=training)
    verdict = sample.judge(sample.inputs, network=True)
    assert verdict.recovered == 8, [record.reason for record in verdict.evidence]
    assert verdict.certificate.kind == "layer"
    assert "before training and by those after it" in verdict.certificate.statement
    assert [record.label for record in verdict.evidence] == sample.truth.labels.tolist()
    assert all(record.copies is None for record in verdict.evidence)


def test_labels_are_not_named_by_a_network_with_other_weights():
    sample = case(8, neurons=150, training=TRAINING)
    right = sample.judge(sample.inputs, network=True).evidence
    for parameter in ("fc2.weight", "fc3.weight"):
        sample.network._tensors[parameter] = sample.network._tensors[parameter].flip(0)
    wrong = sample.judge(sample.inputs, network=True)
    assert sum(record.label is not None for record in right) >= 7
    assert all(record.label is None for record in wrong.evidence)
    assert wrong.recovered == 8, "labels prove nothing, and disprove nothing"


def test_two_classes_could_merge_records_unseen():
    sample = case(4, neurons=150, classes=2, training=TRAINING)
    assert sample.judge(sample.inputs).recovered == 4
    verdict = sample.judge(sample.inputs, network=True)
    assert verdict.recovered == 0
    assert "two classes" in verdict.evidence[0].reason


def test_a_bias_whose_change_is_unknown_leaves_activity_open():
    sample = case(4, neurons=150, training=TRAINING)
    layer = next(iter(sample.update.linear_layers()))
    hidden = type(layer)(layer.name, layer.weight, layer.bias, layer.weight_gradient, None, True)
    factors = factor_gradient(hidden.weight_gradient, generator=torch.Generator().manual_seed(0))
    problem = build_problem(hidden, factors, Setting.SPARSE_GRADIENT)
    records = sample.inputs / sample.inputs.norm(dim=1, keepdim=True)
    verdict = certify(problem, records, scale_identified=False, sign=-1.0)
    assert verdict.recovered == 0
    assert "change of the layer's bias is unknown" in verdict.evidence[0].reason


@pytest.mark.parametrize("rate", [0.03, 0.2])
@pytest.mark.parametrize("distance", [1e-3, 1e-2, 1e-1])
def test_records_nearer_than_training_moved_are_not_told_from_their_mixtures(distance, rate):
    """All neurons that tell near-duplicates apart may be ones that training moved."""
    inputs = draw(4, 40, seed=5)
    step = torch.randn(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    inputs[1] = inputs[0] + distance * step
    training = LocalTraining(rate, epochs=5, batch_size=2)
    sample = case(4, neurons=150, inputs=inputs, training=training, labels=[0, 3, 1, 2])
    for share in (-3.0, -1.0, -0.3, 0.3, 0.7, 3.0):
        for place in (0, 1):
            records = inputs.clone()
            records[place] = inputs[place] + share * (inputs[1 - place] - inputs[place])
            verdict = sample.judge(records)
            actual = errors(records, inputs)
            for j, record in enumerate(verdict.evidence):
                claimed = record.estimated_error or 0.0
                assert not record.recovered or actual[j] <= 50 * claimed, (share, place, j)


def test_a_neuron_on_the_wrong_side_refuses_the_batch_only_if_it_is_settled():
    sample = case(6, neurons=150, training=TRAINING)
    pattern = sample.judge(sample.inputs).evidence
    assert all(0 < record.half_space_rows < 150 for record in pattern)
    assert all(record.half_space_mismatches == 0 for record in pattern)


def test_photos_are_certified_by_neurons_that_agree_where_few_are_settled(monkeypatch):
    """Inputs that are not centred move all neurons together, and few of them are certain."""
    batch = load_source("patches?size=16").batch(12, seed=1)
    model = mlp(768, [400], 10, dtype=torch.float64, seed=1)
    client = FedAvg(model, training=LocalTraining(0.02, epochs=3, batch_size=4))
    update, truth = client.update(batch.inputs.double(), batch.labels, batch.preprocessing)
    layer = next(iter(update.linear_layers()))
    factors = factor_gradient(layer.weight_gradient, generator=torch.Generator().manual_seed(0))
    problem = build_problem(layer, factors, Setting.SPARSE_GRADIENT)
    records = truth.inputs.flatten(1)
    verdict = certify(problem, records, scale_identified=True, sign=-1.0)
    assert verdict.recovered == 12, {record.reason for record in verdict.evidence}
    monkeypatch.setattr(
        "gradaudit.certify.pattern.determined_often", lambda *_, **__: torch.tensor(False)
    )
    assert certify(problem, records, scale_identified=True, sign=-1.0).recovered == 0
