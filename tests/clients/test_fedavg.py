from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from gradaudit.capture import load_update
from gradaudit.clients import FedAvg, FedSGD
from gradaudit.defenses import DPSGD, GaussianNoise, Prune
from gradaudit.errors import InputError
from gradaudit.models import mlp
from gradaudit.update import LocalTraining, combination

SETTINGS = [
    LocalTraining(0.1),
    LocalTraining(0.1, epochs=3, batch_size=2),
    LocalTraining(0.1, epochs=2, batch_size=4, momentum=0.9, weight_decay=0.1),
    LocalTraining(0.1, epochs=2, batch_size=4, momentum=0.9, nesterov=True),
    LocalTraining(0.1, epochs=2, batch_size=9, momentum=0.9, dampening=0.5),
]


def batch(size=7, features=6, classes=3):
    generator = torch.Generator().manual_seed(9)
    inputs = torch.randn(size, features, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(classes, (size,), generator=generator)


def by_hand(model: nn.Module, training: LocalTraining, inputs, labels, seed: int):
    """The difference of weights, by SGD written out; and each step's gradient of layer one."""
    weights = {n: p.detach().clone() for n, p in model.named_parameters()}
    velocity: dict = {}
    generator = torch.Generator().manual_seed(seed)
    gradients = []
    for _ in range(training.epochs):
        order = torch.randperm(len(inputs), generator=generator).tolist()
        size = training.batch_size or len(order)
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            w = {n: t.clone().requires_grad_() for n, t in weights.items()}
            hidden = torch.relu(inputs[rows] @ w["fc1.weight"].T + w["fc1.bias"])
            logits = hidden @ w["fc2.weight"].T + w["fc2.bias"]
            nn.functional.cross_entropy(logits, labels[rows]).backward()
            gradients.append(w["fc1.weight"].grad)
            for name, t in w.items():
                step = t.grad + training.weight_decay * weights[name]
                if training.momentum:
                    if name in velocity:
                        velocity[name] = (
                            training.momentum * velocity[name] + (1 - training.dampening) * step
                        )
                    else:
                        velocity[name] = step
                    ahead = step + training.momentum * velocity[name]
                    step = ahead if training.nesterov else velocity[name]
                weights[name] = weights[name] - training.learning_rate * step
    before = dict(model.named_parameters())
    return {n: (t - before[n]).detach() for n, t in weights.items()}, gradients


@pytest.mark.parametrize("training", SETTINGS)
def test_a_loop_written_out(training):
    model = mlp(6, [5], 3, seed=1, dtype="float64")
    inputs, labels = batch()
    update, truth = FedAvg(model, training=training, seed=4).update(inputs, labels)
    expected, gradients = by_hand(model, training, inputs, labels, 4)
    for name, delta in expected.items():
        torch.testing.assert_close(update.delta[name], delta, rtol=1e-10, atol=1e-14)
    assert torch.equal(truth.inputs, inputs)
    assert update.step.records == 7
    assert update.step.steps() == len(gradients)
    # Without decay, the first layer's difference is the known combination of its gradients.
    plain = update.without_decay().delta["fc1.weight"]
    weights = combination(training, len(gradients)).gradients
    made = sum(c * g for c, g in zip(weights, gradients, strict=True))
    torch.testing.assert_close(plain, made, rtol=1e-10, atol=1e-13)


def test_the_first_layers_difference_lies_in_the_span_of_the_records():
    model = mlp(40, [30], 3, seed=1, dtype="float64")
    inputs, labels = batch(features=40)
    for training in SETTINGS:
        update = FedAvg(model, training=training).update(inputs, labels)[0].without_decay()
        delta = update.delta["fc1.weight"]
        spanned = torch.linalg.lstsq(inputs.T, delta.T).solution
        residual = (inputs.T @ spanned - delta.T).norm() / delta.norm()
        assert float(residual) < 1e-12


def test_one_step_is_fedsgds():
    model = mlp(6, [5], 3, seed=1, dtype="float64")
    ours = FedAvg(model, training=LocalTraining(0.1)).update(*batch())[0]
    theirs = FedSGD(model, observe="delta", learning_rate=0.1).update(*batch())[0]
    assert ours.gradient_scale == theirs.gradient_scale == -0.1
    for name, delta in theirs.delta.items():
        torch.testing.assert_close(ours.delta[name], delta, rtol=1e-10, atol=1e-15)


def test_seeds_order_the_records():
    model = mlp(6, [5], 3, seed=1)
    training = LocalTraining(0.1, epochs=2, batch_size=3)
    first, again, other = (
        FedAvg(model, training=training, seed=seed).update(*batch())[0].sha256()
        for seed in (0, 0, 1)
    )
    assert first == again != other


@pytest.mark.parametrize("train", [False, True])
def test_the_callers_model_is_left_alone(train):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = nn.Sequential(
            nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3)
        ).double()
    model[3].bias.requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    state = torch.random.get_rng_state()
    training = LocalTraining(0.1, epochs=2, batch_size=4)
    update, _ = FedAvg(model, training=training, train=train).update(*batch())
    again, _ = FedAvg(model, training=training, train=train).update(*batch())
    assert all(torch.equal(tensor, before[n]) for n, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert update.sha256() == again.sha256()
    assert torch.equal(update.weights["1.running_mean"], before["1.running_mean"])
    assert set(update.delta) == {"0.weight", "0.bias", "1.weight", "1.bias", "3.weight"}


def test_noise_of_the_steps_adds_up():
    model = mlp(6, [300], 3, seed=1, dtype="float64")
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    training = LocalTraining(0.1, epochs=2, batch_size=3, momentum=0.5)
    # With clipping to almost nothing, what is sent is the noise alone.
    client = FedAvg(model, training=training, defenses=[DPSGD(1e-9, 1e6)])
    update, _ = client.update(*batch())
    weights = combination(training, 6).gradients
    # Batches of 3, 3 and 1.
    noises = [1e-3 / size for size in (3, 3, 1) * 2]
    assert update.noise == pytest.approx(
        math.hypot(*(c * s for c, s in zip(weights, noises, strict=True)))
    )
    sent = torch.cat([t.flatten() for t in update.delta.values()])
    # 3003 entries: five standard deviations of the estimate are 6.5 %.
    assert float(sent.square().mean().sqrt()) == pytest.approx(update.noise, rel=0.065)


def test_what_is_told_of_the_noise():
    model, training = mlp(6, [5], 3, seed=1), LocalTraining(0.1)
    told = [
        FedAvg(model, training=training, defenses=defenses).update(*batch())[0].noise
        for defenses in ([], [GaussianNoise(0.5)], [GaussianNoise(0.5), Prune(0.5)])
    ]
    assert told == [None, 0.5, None]


def test_a_file_says_what_a_server_knows(tmp_path):
    training = LocalTraining(0.1, epochs=2, batch_size=3, momentum=0.9)
    client = FedAvg(
        mlp(6, [5], 3), training=training, gradient_dtype="float32", defenses=[GaussianNoise(0.01)]
    )
    update, _ = client.update(*batch())
    update.save(tmp_path / "u")
    loaded = load_update(tmp_path / "u")
    assert (loaded.step, loaded.noise) == (update.step, 0.01)
    assert loaded.sha256() == update.sha256()


@pytest.mark.parametrize(
    ("training", "said"),
    [
        (LocalTraining(), "training.learning_rate: found None"),
        (LocalTraining(0.1, optimizer="adam"), "training.optimizer: found 'adam'"),
    ],
)
def test_training_that_cannot_be_done(training, said):
    with pytest.raises(InputError, match=said):
        FedAvg(mlp(6, [5], 3), training=training)


def test_training_that_overflows_is_one_line():
    client = FedAvg(mlp(6, [5], 3, seed=1), training=LocalTraining(1e30, epochs=3))
    with pytest.raises(InputError, match="not finite"):
        client.update(*batch())


def test_a_rate_that_the_weights_cannot_hold_is_refused():
    client = FedAvg(mlp(6, [5], 3), training=LocalTraining(1e300))
    with pytest.raises(InputError, match="learning_rate"):
        client.update(*batch())
