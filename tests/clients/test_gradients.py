from __future__ import annotations

import pytest
import torch
from torch import nn

from gradaudit.clients import FedSGD
from gradaudit.clients.gradients import batch_gradient, record_gradients
from gradaudit.defenses import DPSGD, ClipPerRecord
from gradaudit.errors import InputError
from gradaudit.models import get_loss, lenet, mlp


def batch(size=5, features=6, classes=3):
    generator = torch.Generator().manual_seed(9)
    inputs = torch.randn(size, features, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(classes, (size,), generator=generator)


def joined(portions):
    portions = list(portions)
    return {name: torch.cat([part[name] for part in portions]) for name in portions[0]}


@pytest.mark.parametrize("loss", ["cross_entropy", "mse", nn.CrossEntropyLoss(reduction="none")])
@pytest.mark.parametrize("portion_bytes", [1, 2**28])
def test_gradients_of_records_are_those_of_batches_of_one(loss, portion_bytes):
    model, loss = mlp(6, [5], 3, seed=1, dtype="float64"), get_loss(loss)
    model.fc1.bias.requires_grad_(False)
    inputs, labels = batch()
    rows = joined(record_gradients(model, loss, inputs, labels, portion_bytes))
    assert "fc1.bias" not in rows
    for i in range(len(inputs)):
        alone = batch_gradient(model, loss, inputs[i : i + 1], labels[i : i + 1], "sum")
        for name, gradient in alone.items():
            torch.testing.assert_close(rows[name][i], gradient, rtol=1e-12, atol=1e-15)
    for name, gradient in batch_gradient(model, loss, inputs, labels, "mean").items():
        torch.testing.assert_close(rows[name].mean(0), gradient, rtol=1e-12, atol=1e-15)


def test_convolutions_and_soft_labels():
    model, loss = lenet(seed=1, num_classes=4).double().eval(), get_loss("cross_entropy")
    inputs = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(1)).double()
    labels = torch.softmax(torch.arange(12.0, dtype=torch.float64).reshape(3, 4), 1)
    rows = joined(record_gradients(model, loss, inputs, labels))
    for name, gradient in batch_gradient(model, loss, inputs, labels, "sum").items():
        torch.testing.assert_close(rows[name].sum(0), gradient, rtol=1e-10, atol=1e-13)


def test_dp_sgd_by_a_loop_over_records():
    model = mlp(6, [5], 3, seed=1, dtype="float64")
    inputs, labels = batch()
    clip, total = 0.7, {}
    for record, label in zip(inputs, labels, strict=True):
        model.zero_grad()
        nn.functional.cross_entropy(model(record[None]), label[None]).backward()
        norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
        factor = min(1.0, clip / (float(norm) + 1e-6))
        for name, p in model.named_parameters():
            total[name] = total.get(name, 0) + factor * p.grad
    model.zero_grad(set_to_none=True)
    update = FedSGD(model, defenses=[DPSGD(clip, 0.0)]).update(inputs, labels)[0]
    assert update.noise is None
    for name, gradient in update.gradient.items():
        torch.testing.assert_close(gradient, total[name] / 5, rtol=1e-12, atol=1e-15)
    noisy = FedSGD(model, defenses=[DPSGD(clip, 2.0)], seed=3).update(inputs, labels)[0]
    assert noisy.noise == pytest.approx(2.0 * clip / 5)
    drawn = torch.cat([(noisy.gradient[n] - t / 5).flatten() for n, t in total.items()])
    # 53 entries: the estimate's standard deviation is 9.7 %; five of them, seed fixed.
    assert abs(float(drawn.square().mean().sqrt()) / noisy.noise - 1) < 0.5


def test_batch_norm_that_mixes_records_is_refused():
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()
    client = FedSGD(model, train=True, defenses=[ClipPerRecord(1.0)])
    with pytest.raises(InputError, match="layer '1', a BatchNorm that mixes"):
        client.update(*batch())
    # Running statistics treat each record by itself.
    update = FedSGD(model, defenses=[ClipPerRecord(1e9)]).update(*batch())[0]
    for name, gradient in FedSGD(model).update(*batch())[0].gradient.items():
        torch.testing.assert_close(update.gradient[name], gradient, rtol=1e-10, atol=1e-13)


def test_dropout_draws_for_each_record_and_is_repeatable():
    model = nn.Sequential(nn.Linear(6, 40), nn.Dropout(0.5), nn.Linear(40, 3)).double()
    inputs, labels = batch()
    same = inputs[:1].expand(4, -1), labels[:1].expand(4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        rows = joined(record_gradients(model.train(), get_loss("cross_entropy"), *same))
    assert not torch.equal(rows["2.weight"][0], rows["2.weight"][1])
    state = torch.random.get_rng_state()
    client = FedSGD(model, train=True, defenses=[ClipPerRecord(1.0)])
    assert client.update(inputs, labels)[0].sha256() == client.update(inputs, labels)[0].sha256()
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("inputs", "labels", "match"),
    [
        (torch.zeros(2, 5), torch.tensor([0, 1]), "inputs"),
        (torch.zeros(2, 6), torch.tensor([0, 7]), "labels"),
        (torch.zeros(2, 6), torch.tensor([0]), "labels"),
    ],
)
@pytest.mark.wrong_types
def test_bad_batches_are_one_line(inputs, labels, match):
    client = FedSGD(mlp(6, [4], 3, seed=2), defenses=[ClipPerRecord(1.0)])
    with pytest.raises(InputError, match=match):
        client.update(inputs, labels)
