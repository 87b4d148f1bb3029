from __future__ import annotations

import pytest
import torch

from gradaudit.chain import Activation
from gradaudit.chain.activations import KINDS

SLOPES = {"leaky_relu": 0.2, "elu": 1.5, "softplus": 2.0}


def activation(kind: str) -> Activation:
    return Activation("act", kind, (401,), SLOPES.get(kind, 1.0))


def values(dtype=torch.float64) -> torch.Tensor:
    return torch.linspace(-8, 8, 401, dtype=dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_the_derivative_is_autograds(kind):
    function = activation(kind)
    inputs = values().requires_grad_()
    (wanted,) = torch.autograd.grad(function(inputs).sum(), inputs)
    assert torch.allclose(function.derivative(values()), wanted, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "relu"])
def test_an_output_gives_its_input_back(kind):
    function = activation(kind)
    inputs = values()
    outputs = function(inputs)
    assert function.invertible
    assert not function.saturated(outputs).any()
    # An output's rounding is that much of its input, at the slope there.
    allowed = 4e-16 * (1 + outputs.abs()) / function.derivative(inputs) + 1e-14
    assert ((function.inverse(outputs) - inputs).abs() <= allowed).all()


@pytest.mark.parametrize("kind", ["sigmoid", "tanh", "elu", "softplus"])
def test_ends_of_the_range_are_finite_and_reported(kind):
    function = activation(kind)
    far = torch.tensor([-60.0, 60.0] * 20 + [0.3])
    outputs = function(far)
    found = function.inverse(outputs)
    assert torch.isfinite(found).all()
    assert function.saturated(outputs)[0]
    assert not function.saturated(outputs)[-1]
    assert function.saturated(function(values()), 1e-2).sum() > 50


def test_relu_keeps_what_is_active():
    function = activation("relu")
    assert not function.invertible
    assert function.inverse(torch.tensor([0.0, 2.0])).tolist() == [0.0, 2.0]
    assert function.saturated(torch.tensor([0.0, 2.0])).tolist() == [True, False]
