"""R-GAP against the true input: layer types, activations, twins, labels, many at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from gradaudit.clients import FedSGD
from gradaudit.models import cnn6, cnn6_d
from gradaudit.rgap import invert, invert_many
from rgap.networks import ACTIVATIONS, drawn, small_cnn, uniform

SHAPE = (2, 8, 8)


def update_of(model: nn.Module, images: Tensor, label: int, **client):
    outputs = model(images).shape[1]
    loss = "binary_cross_entropy" if outputs == 1 else "cross_entropy"
    return FedSGD(model, loss=loss, **client).update(images, torch.tensor([label]))[0]


def best_error(candidates, images: Tensor) -> float:
    return min(float((c.inputs - images[0]).abs().max()) for c in candidates)


class Skipping(nn.Module):
    """An identity skip around two convolutions; the second has 8 x 9 equations a channel for 36."""

    def __init__(self, kernel: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 8, 3)
        self.conv1 = nn.Conv2d(8, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 8, kernel, padding=kernel // 2)
        self.head = nn.Linear(8 * 36, 4)

    def forward(self, images: Tensor) -> Tensor:
        hidden = torch.tanh(self.stem(images))
        hidden = hidden + self.conv2(torch.tanh(self.conv1(hidden)))
        return self.head(torch.sigmoid(hidden).flatten(1))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation(activation, bias):
    # Behind ReLU, half of the outputs are no equations: more channels make up for them.
    channels = (24, 16) if activation == "relu" else (8, 12)
    model = small_cnn(activation, bias=bias, channels=channels)
    images = uniform(1, *SHAPE)
    (found,) = invert(model, update_of(model, images, 1), input_shape=SHAPE)
    assert best_error([found], images) < 1e-7
    assert found.label == 1
    assert found.inputs.shape == SHAPE


NETWORKS = {
    "dense": (nn.Sequential(nn.Flatten(), nn.Linear(128, 30), nn.Tanh(), nn.Linear(30, 4)), 1e-10),
    "strided": (
        nn.Sequential(
            nn.Conv2d(2, 12, 3, stride=2, padding=1),
            nn.ELU(),
            nn.Conv2d(12, 12, 3, padding=2, dilation=2),
            nn.Softplus(),
            nn.Flatten(),
            nn.Linear(12 * 16, 5),
        ),
        1e-8,
    ),
    "grouped": (
        nn.Sequential(
            nn.Conv2d(2, 16, 3, padding=1, groups=2),
            nn.LeakyReLU(0.1),
            nn.Flatten(),
            nn.Linear(16 * 64, 3),
        ),
        1e-9,
    ),
    "pooled and normalised": (
        nn.Sequential(
            nn.BatchNorm2d(2),
            nn.Conv2d(2, 12, 3, padding=1),
            nn.BatchNorm2d(12),
            nn.AvgPool2d(2),
            nn.Sigmoid(),
            nn.Flatten(),
            nn.Linear(12 * 16, 3),
        ),
        1e-8,
    ),
    "rectangular": (
        nn.Sequential(
            nn.Conv2d(2, 10, (3, 1), stride=(2, 1), padding=(1, 0)),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(10 * 32, 3),
        ),
        1e-9,
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer(name):
    model, limit = NETWORKS[name]
    model = drawn(model, 1, 1.5)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.fill_(0.3)
            module.running_var.fill_(1.7)
    images = uniform(1, *SHAPE)
    (found,) = invert(model, update_of(model, images, 2), input_shape=SHAPE)
    assert best_error([found], images) < limit
    assert found.determined


def test_an_identity_skip_is_crossed():
    model = drawn(Skipping(), 2, 1.5)
    images = uniform(1, *SHAPE)
    (found,) = invert(model, update_of(model, images, 3), input_shape=SHAPE)
    assert [layer.layer for layer in found.layers] == ["conv2", "conv1", "stem"]
    assert found.determined
    assert best_error([found], images) < 1e-7


def test_a_skip_whose_last_layer_says_too_little_has_a_deficit():
    # With a kernel of 1, only 8 equations a channel; the layer's output is not known either.
    model = drawn(Skipping(kernel=1), 2, 1.5)
    (found,) = invert(model, update_of(model, uniform(1, *SHAPE), 3), input_shape=SHAPE)
    assert found.deficits["conv2"] == 8 * (36 - 8)


def test_both_multiples_of_a_homogeneous_network_are_given():
    model = small_cnn(outputs=1)
    images = uniform(1, *SHAPE)
    label = int(model(images)[0, 0] > 0)
    update = update_of(model, images, label)
    found = invert(model, update, input_shape=SHAPE)
    assert {c.name for c in found} == {"larger margin", "smaller margin"}
    assert best_error(found, images) < 1e-9
    ratio = found[0].inputs / found[1].inputs
    assert float(ratio.std() / ratio.mean()) < 1e-9
    for candidate in found:
        again = update_of(model, candidate.inputs[None], label)
        for name, gradient in update.observed.items():
            assert torch.allclose(again.observed[name], gradient, rtol=1e-7, atol=1e-12)


def test_a_curved_network_without_biases_has_one_margin_that_fits():
    model = small_cnn("elu", outputs=1)
    images = uniform(1, *SHAPE)
    label = int(model(images)[0, 0] > 0)
    (found,) = invert(model, update_of(model, images, label), input_shape=SHAPE)
    assert best_error([found], images) < 1e-8


def test_an_odd_network_does_not_tell_a_record_from_its_negative_of_the_other_class():
    model = small_cnn("tanh", outputs=1)
    images = uniform(1, *SHAPE)
    one, other = invert(model, update_of(model, images, 1), input_shape=SHAPE)
    assert best_error([one, other], images) < 1e-8
    assert torch.allclose(one.inputs, -other.inputs)
    assert {one.label, other.label} == {0, 1}


@pytest.mark.parametrize("label", [0, 1])
def test_a_wrong_label_is_found_out(label):
    model = small_cnn(outputs=1)
    found = invert(model, update_of(model, uniform(1, *SHAPE), label), input_shape=SHAPE)
    assert {candidate.label for candidate in found} == {label}
    assert all(candidate.residual < 1e-9 for candidate in found)


def test_a_batch_behind_one_logit_contradicts_itself():
    model = small_cnn(outputs=1)
    update, _ = FedSGD(model, loss="binary_cross_entropy").update(
        uniform(2, *SHAPE), torch.tensor([0, 1])
    )
    found = invert(model, update, input_shape=SHAPE)
    assert all(candidate.residual > 0.05 for candidate in found)


def test_a_difference_of_weights():
    model = small_cnn("sigmoid")
    images = uniform(1, *SHAPE)
    update = update_of(model, images, 0, observe="delta", learning_rate=0.3)
    (found,) = invert(model, update, input_shape=SHAPE)
    error = float((found.inputs - images[0]).square().mean().sqrt())
    assert error < 1e-9
    assert found.error > error / 100


def test_many_updates_are_solved_as_each_alone():
    model = small_cnn("elu")
    images = uniform(5, *SHAPE)
    updates = [update_of(model, images[i : i + 1], i % 3) for i in range(5)]
    # One of another model's weights, in between.
    other = small_cnn("elu", seed=4)
    updates.insert(2, update_of(other, images[:1], 1))
    found = invert_many(model, updates, input_shape=SHAPE)
    assert [candidates[0].label for candidates in found] == [0, 1, 1, 2, 0, 1]
    for position, candidates in enumerate(found):
        alone = invert(model, updates[position], input_shape=SHAPE)
        assert torch.allclose(candidates[0].inputs, alone[0].inputs, atol=1e-8)
    assert best_error(found[0], images[:1]) < 1e-8
    assert best_error(found[2], images[:1]) < 1e-8


def test_cnn6_in_double_precision():
    model = cnn6(dtype="float64")
    images = uniform(1, 3, 32, 32)
    found = invert(model, update_of(model, images, 1), input_shape=(3, 32, 32))
    error = min(float((c.inputs - images[0]).square().mean()) for c in found)
    # 190 dB.
    assert error < 1e-19
    assert all(candidate.determined for candidate in found)


def test_cnn6_d_loses_exactly_280_dimensions_at_its_second_layer():
    model = cnn6_d(dtype="float64")
    found = invert(model, update_of(model, uniform(1, 3, 32, 32), 1), input_shape=(3, 32, 32))
    assert all(candidate.deficits == {"conv2": 280} for candidate in found)
