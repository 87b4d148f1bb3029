from __future__ import annotations

import pytest
import torch
from torch import nn

from gradaudit.chain import chain_of
from gradaudit.rgap.operators import LayerEquations, constant, layer_gradient
from rgap.networks import drawn, generator

LAYERS = {
    "dense": (nn.Sequential(nn.Linear(7, 5)), (7,)),
    "plain": (nn.Sequential(nn.Conv2d(3, 4, 3)), (3, 6, 7)),
    "general": (
        nn.Sequential(nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), groups=2, bias=False)),
        (4, 7, 8),
    ),
    "beyond the kernel": (nn.Sequential(nn.Conv2d(2, 3, 2, stride=3)), (2, 8, 8)),
    "pooled": (nn.Sequential(nn.Conv2d(2, 3, 3), nn.AvgPool2d(2), nn.BatchNorm2d(3)), (2, 8, 8)),
}


def layer(name: str):
    model, shape = LAYERS[name]
    model = drawn(model, 3)
    return model, chain_of(model, shape).steps[0], shape


def normal(*shape: int, seed: int = 4) -> torch.Tensor:
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", LAYERS)
def test_the_operators_are_what_autograd_says(name):
    model, step, shape = layer(name)
    inputs = normal(3, *shape).requires_grad_()
    outputs = model(inputs)
    behind = normal(*outputs.shape, seed=5)
    equations = LayerEquations(step, layer_gradient(step, behind.flatten(1)))
    for p in range(3):
        loss = (model(inputs)[p] * behind[p]).sum()
        weight, back = torch.autograd.grad(loss, (model[0].weight, inputs))
        assert torch.allclose(equations.gradient(inputs.flatten(1))[p], weight.flatten())
        assert torch.allclose(equations.input_gradient()[p], back[p].flatten())
        assert torch.allclose(equations.output_adjoint(behind.flatten(1))[p], back[p].flatten())
    constants = constant(step)
    assert torch.allclose(equations.output(inputs.flatten(1)) + constants, outputs.flatten(1))
    both = equations(inputs.flatten(1))
    assert torch.equal(both[0], equations.gradient(inputs.flatten(1)))
    assert torch.equal(both[1], equations.output(inputs.flatten(1)))


@pytest.mark.parametrize("name", LAYERS)
def test_adjoints(name):
    _, step, shape = layer(name)
    inputs = normal(2, *shape).flatten(1)
    equations = LayerEquations(step, normal(2, *step.layer_shape, seed=6).flatten(1))
    gradient, output = equations(inputs)
    rows, values = normal(*gradient.shape, seed=7), normal(*output.shape, seed=8)
    forward = (gradient * rows).sum(1) + (output * values).sum(1)
    backward = (inputs * equations.adjoint(rows, values)).sum(1)
    assert torch.allclose(forward, backward, rtol=1e-12)
    alone = equations.gradient_adjoint(rows) + equations.output_adjoint(values)
    assert torch.allclose(equations.adjoint(rows, values), alone, rtol=1e-12, atol=1e-14)
