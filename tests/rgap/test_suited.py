"""What R-GAP refuses, before any work, with the layer and the reason."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from gradaudit.clients import FedSGD
from gradaudit.errors import InputError
from gradaudit.rgap import NotSolvableError, invert
from rgap.networks import drawn, small_cnn, uniform


def layers(*between: nn.Module, head: nn.Module | None = None) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), *between, nn.Flatten(), head or nn.LazyLinear(3)
    )


REFUSED = {
    "max pooling": (layers(nn.MaxPool2d(2)), "'2' cannot be computed backwards: max pooling"),
    "average pooling": (layers(nn.AvgPool2d(2)), "'2' .*behind an activation"),
    "normalisation": (layers(nn.LayerNorm([4, 8, 8])), "'2' .*own statistics"),
    "softmax": (
        nn.Sequential(nn.Flatten(), nn.Linear(128, 3), nn.Softmax(1)),
        "'2' cannot be computed backwards: a softmax",
    ),
    "an activation at the end": (
        nn.Sequential(nn.Flatten(), nn.Linear(128, 3), nn.Sigmoid()),
        "'2' follows the last layer",
    ),
    "no head": (
        nn.Sequential(nn.Conv2d(2, 3, 8), nn.Flatten()),
        "does not end in a fully connected layer",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_networks(name):
    model, reason = REFUSED[name]
    with torch.no_grad():
        model.double()(uniform(1, 2, 8, 8))
    model = drawn(model)
    update, _ = FedSGD(model).update(uniform(1, 2, 8, 8), torch.tensor([1]))
    with pytest.raises(NotSolvableError, match=reason) as caught:
        invert(model, update, input_shape=(2, 8, 8))
    assert caught.value.remedy.endswith(".")


def test_training_mode():
    model = drawn(layers(nn.BatchNorm2d(4), nn.Tanh(), head=nn.Linear(256, 3)))
    update, _ = FedSGD(model).update(uniform(1, 2, 8, 8), torch.tensor([1]))
    assert invert(model, update, input_shape=(2, 8, 8))
    model.train()
    with pytest.raises(NotSolvableError, match=r"'2' .*training mode"):
        invert(model, update, input_shape=(2, 8, 8))
    assert model.training


def test_a_batch():
    model = small_cnn()
    update, _ = FedSGD(model).update(uniform(3, 2, 8, 8), torch.tensor([0, 1, 2]))
    started = time.perf_counter()
    with pytest.raises(NotSolvableError, match="'5' has a rank above one") as caught:
        invert(model, update, input_shape=(2, 8, 8))
    assert "'auto'" in caught.value.remedy
    assert time.perf_counter() - started < 5


def test_a_skip_block_with_two_ways():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(2, 3, 1)
            self.head = nn.Linear(192, 3)

        def forward(self, images):
            return self.head(torch.tanh(self.one(images) + self.two(images)).flatten(1))

    model = drawn(Two())
    update, _ = FedSGD(model).update(uniform(1, 2, 8, 8), torch.tensor([1]))
    with pytest.raises(NotSolvableError, match="'add'"):
        invert(model, update, input_shape=(2, 8, 8))


def test_a_shape_that_nobody_knows():
    model = small_cnn()
    update, _ = FedSGD(model).update(uniform(1, 2, 8, 8), torch.tensor([1]))
    with pytest.raises(InputError, match="input_shape"):
        invert(model, update)
