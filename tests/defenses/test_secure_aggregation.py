from __future__ import annotations

import pytest
import torch

from gradaudit.clients import FedAvg, FedSGD
from gradaudit.defenses import GaussianNoise, secure_aggregation
from gradaudit.errors import InputError
from gradaudit.models import mlp
from gradaudit.update import LocalTraining, Update


def batch(size: int, seed: int):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(size, 5, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(3, (size,), generator=generator)


MODEL = mlp(5, [7], 3, seed=1, dtype="float64")
BATCHES = [batch(size, seed) for seed, size in enumerate((4, 4, 2))]
UNION = tuple(torch.cat(parts) for parts in zip(*BATCHES, strict=True))


def test_weighted_by_size_it_is_the_gradient_of_all_records():
    client = FedSGD(MODEL)
    updates = [client.update(*each)[0] for each in BATCHES]
    total = secure_aggregation(updates, [0.4, 0.4, 0.2]).gradient
    for name, gradient in client.update(*UNION)[0].gradient.items():
        torch.testing.assert_close(total[name], gradient, rtol=1e-12, atol=1e-15)
    sums = [FedSGD(MODEL, reduction="sum").update(*each)[0] for each in BATCHES]
    total = secure_aggregation(sums, [1, 1, 1]).gradient
    for name, gradient in FedSGD(MODEL, reduction="sum").update(*UNION)[0].gradient.items():
        torch.testing.assert_close(total[name], gradient, rtol=1e-12, atol=1e-15)


def test_by_default_clients_count_the_same_and_noise_averages_out():
    noisy = FedSGD(MODEL, defenses=[GaussianNoise(0.5)])
    updates = [noisy.update(*each)[0] for each in BATCHES[:2]]
    total = secure_aggregation(updates)
    mean = (updates[0].gradient["fc1.weight"] + updates[1].gradient["fc1.weight"]) / 2
    torch.testing.assert_close(total.gradient["fc1.weight"], mean)
    assert total.noise == pytest.approx(0.5 / 2**0.5)
    silent = FedSGD(MODEL).update(*BATCHES[2])[0]
    assert secure_aggregation([*updates, silent]).noise is None


def test_local_training_with_other_numbers_of_records():
    training = LocalTraining(0.1, epochs=2)
    updates = [FedAvg(MODEL, training=training).update(*each)[0] for each in BATCHES]
    assert [update.step.records for update in updates] == [4, 4, 2]
    assert secure_aggregation(updates).step == training
    assert secure_aggregation(updates[:2]).step == updates[0].step


def test_what_cannot_be_added():
    first = FedSGD(MODEL).update(*BATCHES[0])[0]
    delta = FedSGD(MODEL, observe="delta", learning_rate=0.1).update(*BATCHES[0])[0]
    moved = FedSGD(mlp(5, [7], 3, seed=2, dtype="float64")).update(*BATCHES[0])[0]
    part = Update(first.weights, {"fc1.weight": first.gradient["fc1.weight"]})
    for other, said in ((delta, "a delta by"), (moved, "another weight"), (part, "parameters")):
        with pytest.raises(InputError, match=said):
            secure_aggregation([first, other])
    with pytest.raises(InputError, match="updates: found none"):
        secure_aggregation([])
    for weights in ([1.0], [1.0, 0.0], [1.0, float("nan")]):
        with pytest.raises(InputError, match="2 positive numbers"):
            secure_aggregation([first, first], weights)
