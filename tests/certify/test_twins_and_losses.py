"""Cases that a stranger broke: twins that fire alike, and losses that do not fit the outputs."""

from __future__ import annotations

import pytest
import torch

import gradaudit as ga


def update_of(inputs, labels, outputs: int, loss, *, width: int = 100) -> ga.Update:
    model = ga.models.mlp(inputs.shape[1], [width, width], outputs, seed=3, dtype=torch.float64)
    return ga.clients.FedSGD(model, loss).update(inputs, labels)[0]


@pytest.mark.parametrize("difference", [1e-2, 1e-3])
def test_twins_that_activate_the_same_neurons_are_not_certified(difference):
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(6, 60, generator=generator, dtype=torch.float64)
    inputs[1] = inputs[0] + difference * torch.randn(60, generator=generator, dtype=torch.float64)
    update = update_of(inputs, torch.tensor([0, 0, 1, 2, 3, 4]), 5, "cross_entropy")
    layer = next(update.linear_layers())
    before = inputs @ layer.weight.T + layer.bias
    assert torch.equal(before[0] > 0, before[1] > 0), "choose another seed"
    result = ga.audit(update, seed=1, budget=ga.Budget(seconds=3.0))
    assert result.status in (ga.Status.PARTIAL, ga.Status.BUDGET_EXHAUSTED)
    distance = (result.records[:, None] - inputs[None]).abs().amax(-1).amin(1)
    for record, error in zip(result.evidence, distance.tolist(), strict=True):
        assert not record.recovered or error < 1e-9


@pytest.mark.parametrize(
    ("outputs", "told", "used"),
    [(1, "binary_cross_entropy", "cross_entropy"), (5, "cross_entropy", "binary_cross_entropy")],
)
def test_a_loss_that_does_not_fit_leaves_the_layer_s_proof(outputs, told, used):
    inputs = torch.randn(5, 60, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0]) if outputs == 1 else torch.arange(5)
    update = update_of(inputs, labels, outputs, told)
    model = ga.models.mlp(60, [100, 100], outputs, dtype=torch.float64)
    result = ga.audit(update, model=model, loss=used, budget=ga.Budget(seconds=20.0))
    assert result.status is ga.Status.RECOVERED
    assert result.certificate.kind == "layer"
    assert any("does not take its outputs" in line for line in result.assumptions)


@pytest.mark.parametrize(("scale", "proven"), [(1e-4, False), (1e-3, False), (1.0, True)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_neurons_that_the_bias_decides_prove_no_record_of_unknown_scale(scale, proven, seed):
    # Without the bias's gradient a unit vector used to be weighed against the bias as it was.
    inputs = scale * torch.randn(2, 160, generator=torch.Generator().manual_seed(seed)).double()
    model = ga.models.mlp(160, [150, 50, 50], 3, dtype=torch.float64, seed=seed)
    client = ga.clients.FedSGD(model, gradient_dtype=torch.float32)
    for records in (inputs[:1], inputs):
        update, _ = client.update(records, torch.zeros(len(records), dtype=torch.long))
        gradients = {name: g for name, g in update.gradient.items() if name != "fc1.bias"}
        result = ga.audit(ga.Update(update.weights, gradients), budget=ga.Budget(seconds=1.0))
        if len(records) == 1:
            assert result.status.leak_proven is proven
        if result.status.leak_proven:
            units = torch.nn.functional.normalize(records, dim=1)
            found = torch.nn.functional.normalize(result.records.double(), dim=1)
            assert float(torch.cdist(found, units).amin(1).max()) < 1e-3


def test_a_mean_of_records_that_the_layer_cannot_see_apart_is_called_one():
    model = ga.models.mlp(80, [60], 10, dtype=torch.float64, seed=5)
    with torch.no_grad():
        model.get_parameter("fc1.weight")[:, :5] = 0
    inputs = torch.randn(6, 80, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    inputs[5, 5:] = inputs[0, 5:]
    labels = torch.tensor([0, 1, 2, 3, 4, 0])
    update, _ = ga.clients.FedSGD(model).update(inputs, labels)
    result = ga.audit(update, seed=0, budget=ga.Budget(seconds=10.0))
    assert result.status is ga.Status.RECOVERED
    assert "1 of them occurred more than once" in result.cause
    assert "cannot tell apart" in result.cause
