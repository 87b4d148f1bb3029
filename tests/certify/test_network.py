from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from certify.settings import case
from gradaudit.certify import Network, NetworkMismatchError
from gradaudit.clients import FedSGD
from gradaudit.errors import InputError
from gradaudit.models import mlp


def test_gradients_are_those_of_autograd():
    sample = case(4)
    network = sample.network
    network.prepare(sample.inputs, None)
    labels = torch.tensor([0, 1, 2, 3])
    each = network.activation_gradients(sample.inputs, labels)
    weight = sample.update.gradient["fc1.weight"]
    assert torch.allclose(each.T @ sample.inputs / 4, weight, atol=1e-14)
    assert torch.allclose(each.sum(0) / 4, sample.update.gradient["fc1.bias"], atol=1e-14)
    forward = network.forward(sample.inputs)
    pairs = forward.full_gradient(labels, torch.full((4,), 0.25).double())
    assert set(pairs) == set(sample.update.gradient)
    for mine, theirs in pairs.values():
        assert torch.allclose(mine, theirs, atol=1e-14)


def test_the_given_model_is_not_touched():
    sample = case(2)
    model = copy.deepcopy(sample.model).float().train()
    for parameter in model.parameters():
        parameter.data.zero_()
    network = Network(model, sample.update, layer="fc1")
    network.prepare(sample.inputs, None)
    assert all(not bool(p.any()) and p.dtype == torch.float32 for p in model.parameters())
    assert model.training
    assert network.forward(sample.inputs).classes == 10


def test_an_interior_layer_is_no_place_for_records():
    sample = case(2)
    network = Network(sample.model, sample.update, layer="fc2")
    with pytest.raises(NetworkMismatchError, match="layer 'fc2'"):
        network.prepare(torch.zeros(2, 90, dtype=torch.float64), None)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(40, 90), nn.Linear(90, 10)

    def forward(self, x):
        return self.fc2(self.fc1(x / 2).relu())


class Twice(Scaled):
    def forward(self, x):
        return self.fc2(self.fc1(x).relu() + self.fc1(x))


class Two(Scaled):
    def forward(self, x):
        return self.fc1(x), self.fc2(self.fc1(x).relu())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Scaled, "do not reach it unchanged"),
        (Twice, "runs 2 times"),
    ],
)
def test_networks_that_take_no_part(model, words):
    torch.manual_seed(0)
    made = model().double()
    inputs = case(3).inputs
    update, _ = FedSGD(made).update(inputs, [0, 1, 2])
    network = Network(made, update, layer="fc1")
    with pytest.raises(NetworkMismatchError, match=words):
        network.prepare(inputs, None)
    assert not any(module._forward_hooks for module in made.modules())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (mlp(40, [90, 20], 9), "'fc3.weight' of shape \\(9, 20\\)"),
        (mlp(40, [90, 20, 10], 10), "a parameter 'fc4.weight'"),
        (mlp(40, [90], 20), "no parameter 'fc3.weight'"),
    ],
)
def test_another_model(model, words):
    with pytest.raises(InputError, match=words):
        Network(model, case(2).update, layer="fc1")


def test_a_layer_that_the_model_lacks():
    sample = case(2)
    with pytest.raises(InputError, match="no module 'fc7'"):
        Network(sample.model, sample.update, layer="fc7")


def test_images_keep_their_shape():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 3)).double()

    class Strict(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x):
            if x.shape[1:] != (3, 2, 2):
                raise ValueError("images only")
            return self.inner(x)

    made = Strict()
    images = torch.randn(2, 3, 2, 2, generator=torch.Generator().manual_seed(0)).double()
    update, _ = FedSGD(made).update(images, [0, 1])
    network = Network(made, update, layer="inner.1")
    network.prepare(images.flatten(1), (3, 2, 2))
    with pytest.raises(NetworkMismatchError, match="images only"):
        Network(made, update, layer="inner.1").prepare(images.flatten(1), None)
