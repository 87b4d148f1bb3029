"""A client's noise has nothing to do with its weights, also where both come from one seed."""

from __future__ import annotations

import torch

import gradaudit as ga


def test_noise_does_not_lean_on_weights_of_the_same_seed():
    # Before, both were the same random numbers in two guises: their correlation was -0.35.
    generator = torch.Generator().manual_seed(9)
    records = torch.randn(3, 40, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2])
    for seed in range(4):
        model = ga.models.mlp(40, [250], 3, seed=seed, dtype=torch.float64)

        def send(level: float, model=model, seed=seed) -> torch.Tensor:
            client = ga.clients.FedSGD(
                model, defenses=[ga.defenses.GaussianNoise(level)], seed=seed
            )
            return next(iter(client.update(records, labels)[0].linear_layers())).weight_gradient

        noise = (send(1.0) - send(0.0)).flatten()
        weights = model.fc1.weight.detach().flatten()
        both = torch.stack([noise, weights])
        # 10,000 pairs: a correlation of 0.06 is six standard errors, one in 10^9.
        assert abs(float(torch.corrcoef(both)[0, 1])) < 0.06


def test_the_same_seed_is_the_same_noise():
    records, labels = torch.ones(2, 5, dtype=torch.float64), torch.tensor([0, 1])
    model = ga.models.mlp(5, [7], 3, seed=0, dtype=torch.float64)

    def send(seed: int) -> torch.Tensor:
        client = ga.clients.FedSGD(model, defenses=[ga.defenses.GaussianNoise(1.0)], seed=seed)
        return client.update(records, labels)[0].gradient["fc1.weight"]

    assert torch.equal(send(4), send(4))
    assert not torch.equal(send(4), send(5))
