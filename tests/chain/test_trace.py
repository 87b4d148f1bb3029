from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from chain.networks import Functional, drawn, residual
from gradaudit.chain import Activation, ChannelScale, Reshape, Skip, chain_of
from gradaudit.errors import InputError


def kinds(steps) -> list[str]:
    return [type(step).__name__ for step in steps]


def images(*shape: int) -> torch.Tensor:
    return torch.randn(2, *shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


MODELS = {
    "functional": (Functional(), (1, 8, 8)),
    "residual": (residual(), (3, 6, 6)),
    "normalised": (
        nn.Sequential(
            nn.BatchNorm2d(2),
            nn.Conv2d(2, 4, 3, stride=2, padding=1, dilation=2, groups=2),
            nn.BatchNorm2d(4, affine=False),
            nn.AvgPool2d(2, stride=1, padding=1),
            nn.ELU(0.7),
            nn.BatchNorm2d(4),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(64, 6),
            nn.BatchNorm1d(6),
            nn.Softplus(),
            nn.Unflatten(1, (2, 3)),
        ),
        (2, 8, 8),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_chain_computes_what_its_network_does(name):
    model, shape = MODELS[name]
    model = drawn(model)
    chain = chain_of(model, shape)
    inputs = images(*shape)
    assert not chain.unsolvable
    assert chain.input_shape == shape
    assert torch.allclose(chain(inputs), model(inputs), rtol=1e-12, atol=1e-14)
    assert chain(inputs).shape[1:] == chain.output_shape


@pytest.mark.parametrize("name", MODELS)
def test_steps_fit_together_and_name_their_parameters(name):
    model, shape = MODELS[name]
    chain = chain_of(drawn(model), shape)
    for step in chain.steps:
        assert step.input_shape == shape
        shape = step.output_shape
    assert shape == chain.output_shape
    parameters = dict(model.named_parameters())
    for layer in chain.affine:
        assert torch.equal(layer.weight, parameters[layer.weight_name])
        assert (layer.bias is None) == (layer.bias_name is None)


def test_pooling_and_normalisation_join_the_layer_before_them():
    model, shape = MODELS["normalised"]
    steps = chain_of(drawn(model), shape).steps
    wanted = ["ChannelScale", "Affine", "Activation", "ChannelScale", "Reshape"]
    assert kinds(steps) == [*wanted, "Affine", "Activation", "Reshape"]
    assert kinds(steps[1].after) == ["ChannelScale", "AveragePool"]
    assert kinds(steps[5].after) == ["ChannelScale"]
    assert steps[1].layer_shape == (4, 3, 3)
    assert steps[1].output_shape == (4, 4, 4)


def test_skip_blocks_are_nested():
    chain = chain_of(drawn(residual()), (3, 6, 6))
    first, second = (step for step in chain.steps if isinstance(step, Skip))
    assert kinds(first.body) == ["Affine", "Activation", "Affine"]
    assert first.shortcut == ()
    assert kinds(second.shortcut) == ["Affine"]
    assert [layer.name for layer in chain.affine][-2:] == ["3.shortcut.0", "5"]


def test_steps_that_change_nothing_are_left_out():
    model = nn.Sequential(nn.Identity(), nn.Dropout(0.0), nn.Flatten(), nn.Linear(3, 2))
    assert kinds(chain_of(model, (3,)).steps) == ["Affine"]
    assert kinds(chain_of(model, (1, 3)).steps) == ["Reshape", "Affine"]


def test_tracing_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.Conv2d(1, 1, 3), nn.BatchNorm2d(1))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    chain_of(model, (1, 5, 5))
    assert model.training
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


class Joined(nn.Module):
    def __init__(self, join) -> None:
        super().__init__()
        self.one, self.two, self.join = nn.Linear(3, 3), nn.Linear(3, 3), join

    def forward(self, inputs):
        return self.join(self.one(inputs), self.two(inputs))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, inputs):
        return self.layer(torch.tanh(self.layer(inputs)))


class Mixing(nn.Module):
    def forward(self, inputs):
        return inputs.reshape(-1)


class Scaled(nn.Module):
    def forward(self, inputs):
        return 2 * inputs


REFUSED = {
    "max pooling": (nn.Sequential(nn.Conv2d(1, 1, 3), nn.MaxPool2d(2)), "max pooling", "1"),
    "average": (
        nn.Sequential(nn.Conv2d(1, 1, 3), nn.ReLU(), nn.AvgPool2d(2)),
        "behind an activation",
        "2",
    ),
    "normalisation": (nn.Sequential(nn.Conv2d(1, 1, 3), nn.BatchNorm2d(1)), "training mode", "1"),
    "dropout": (nn.Sequential(nn.Dropout(0.1)), "training mode", "0"),
    "own statistics": (nn.Sequential(nn.LayerNorm(8)), "own statistics", "0"),
    "not monotone": (nn.Sequential(nn.GELU()), "does not rise", "0"),
    "falling": (nn.Sequential(nn.LeakyReLU(-0.1)), "does not rise", "0"),
    "rows": (nn.Sequential(nn.Linear(8, 3)), "several rows", "0"),
    "circular": (nn.Sequential(nn.Conv2d(1, 1, 3, padding_mode="circular")), "zeros", "0"),
    "uneven": (nn.Sequential(nn.Conv2d(1, 1, 4, padding="same")), "two sides", "0"),
    "transposed": (nn.Sequential(nn.ConvTranspose2d(1, 1, 3)), "ConvTranspose2d", "0"),
    "scaled": (Scaled(), "mul", "mul"),
    "mixing": (Mixing(), "mixed", "reshape"),
    "bare": (nn.Conv2d(1, 1, 3), "module of its own", "conv2d"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_described_says_why(name):
    model, reason, step = REFUSED[name]
    (refused, *_) = chain_of(model, (1, 8, 8)).unsolvable
    assert reason in refused.reason
    assert refused.name == step
    assert refused.remedy


def test_branches_that_are_not_added_are_refused():
    (refused,) = chain_of(Joined(torch.mul), (3,)).unsolvable
    assert "another way than by an addition" in refused.reason
    wide = chain_of(Joined(lambda a, b: torch.cat([a, b], 1)), (3,)).unsolvable
    assert wide[0].output_shape == (6,)
    assert not chain_of(Joined(torch.add), (3,)).unsolvable


def test_weights_used_twice_are_refused():
    (refused,) = chain_of(Tied(), (3,)).unsolvable
    assert "another layer uses too" in refused.reason


class Branching(nn.Module):
    def forward(self, inputs):
        return inputs if inputs.sum() > 0 else -inputs


class TwoInputs(nn.Module):
    def forward(self, one, two):
        return one + two


class TwoOutputs(nn.Module):
    def forward(self, inputs):
        return inputs, inputs


@pytest.mark.parametrize(
    ("model", "argument", "found"),
    [
        (Branching(), "model", "cannot be traced"),
        (TwoInputs(), "model", "2 inputs"),
        (TwoOutputs(), "model", "several outputs"),
        (nn.Sequential(nn.Linear(4, 2)), "input_shape", "refuses"),
    ],
)
def test_networks_that_are_no_chain_are_bad_input(model, argument, found):
    with pytest.raises(InputError, match=found) as caught:
        chain_of(model, (3,))
    assert caught.value.argument == argument


def test_functional_calls_are_the_modules_they_stand_for():
    class Calls(nn.Module):
        def forward(self, inputs):
            for call in (functional.elu, torch.tanh, functional.softplus, functional.relu):
                inputs = call(inputs)
            return functional.leaky_relu(inputs, 0.25).relu().flatten(1)

    steps = chain_of(Calls(), (1, 2)).steps
    acts = [(step.kind, step.slope) for step in steps if isinstance(step, Activation)]
    wanted = [("elu", 1.0), ("tanh", 1.0), ("softplus", 1.0), ("relu", 1.0)]
    assert acts == [*wanted, ("leaky_relu", 0.25), ("relu", 1.0)]
    assert isinstance(steps[-1], Reshape)


def test_a_channel_of_zeros_is_refused():
    model = drawn(nn.Sequential(nn.Tanh(), nn.BatchNorm2d(2)))
    assert isinstance(chain_of(model, (2, 4, 4)).steps[1], ChannelScale)
    model[1].weight.data[1] = 0
    assert "multiplied by zero" in chain_of(model, (2, 4, 4)).unsolvable[0].reason
