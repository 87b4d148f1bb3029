"""What is read off one forward pass is what autograd says of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from certify.settings import case
from gradaudit.certify import Network, NetworkMismatchError
from gradaudit.clients import FedSGD


def forward_of(sample):
    sample.network.prepare(sample.inputs, None)
    return sample.network.forward(sample.inputs)


def test_loss_slopes_are_softmax_less_one_hot():
    forward = forward_of(case(3, classes=5))
    labels = torch.tensor([[0, 1, 2], [4, 4, 4]])
    expected = forward.outputs.softmax(1) - nn.functional.one_hot(labels, 5)
    assert torch.allclose(forward.loss_slopes(labels), expected, atol=1e-14)


def test_outputs_change_as_the_product_backwards_says():
    forward = forward_of(case(3, classes=5))
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(2, forward.reached.shape[1], generator=generator).double()
    labels = torch.tensor([0, 3, 4])
    slopes = forward.loss_slopes(labels[None])[0]
    along = (forward.output_changes(directions) * slopes).sum(2)
    expected = directions @ forward.activation_gradients(labels).T
    assert torch.allclose(along, expected, atol=1e-14)


@pytest.mark.parametrize("inference", [False, True])
def test_the_same_pass_serves_again_and_in_inference_mode(inference):
    sample = case(3, classes=5)
    with torch.inference_mode(inference):
        forward = forward_of(sample)
        labels = torch.tensor([0, 3, 4])
        first = forward.full_gradient(labels, torch.ones(3).double())
        again = forward.full_gradient(labels, torch.ones(3).double())
    assert all(torch.equal(first[name][0], again[name][0]) for name in first)


class Clamped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(12, 40), nn.Linear(40, 3)

    def forward(self, x):
        return self.fc2(self.fc1(x.clamp(max=2.0)).relu())


def test_every_record_must_reach_the_layer_unchanged():
    model = Clamped().double()
    inputs = torch.ones(4, 12, dtype=torch.float64)
    update, _ = FedSGD(model).update(inputs, [0, 1, 2, 0])
    network = Network(model, update, layer="fc1")
    network.prepare(inputs, None)
    inputs[3, 5] = 3.0
    with pytest.raises(NetworkMismatchError, match="do not reach it unchanged"):
        network.forward(inputs)
