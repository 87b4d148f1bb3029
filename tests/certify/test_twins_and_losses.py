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
