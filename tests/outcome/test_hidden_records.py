"""What a later layer gives while noise hides records in it that another layer shows."""

from __future__ import annotations

import torch

import gradaudit as ga


def test_a_mixture_in_a_later_layer_is_no_record(data_folder):
    # 20 records: the first layer shows more of them than the fifth, whose certified "record" was
    # a mixture, ten times as far from every true input as its estimated error.
    source = ga.data.load_source(str(data_folder / "cifar10_2000.npz"))
    batch = source.batch(20, seed=0, dtype=torch.float64)
    model = ga.models.mlp(batch.inputs[0].numel(), [200] * 5, 10, seed=0, dtype="float64")
    client = ga.clients.FedSGD(model, defenses=[ga.defenses.GaussianNoise(3e-4)], seed=0)
    result = ga.audit(
        client.update(batch.inputs, batch.labels)[0], seed=0, budget=ga.Budget(seconds=60)
    )
    assert not result.status.leak_proven
    assert result.records is None
    assert result.certificate.kind != "within_noise"
    assert any("another layer shows" in layer.reason for layer in result.layers)
