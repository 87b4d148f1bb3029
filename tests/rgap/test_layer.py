from __future__ import annotations

import pytest
import torch
from torch import nn

from gradaudit.chain import chain_of
from gradaudit.rgap.layer import solve_layer
from gradaudit.rgap.operators import LayerEquations, layer_gradient
from gradaudit.rgap.problem import Known, LayerProblem
from rgap.networks import drawn, generator

# The layer, the shape of its input, and whether its gradient alone determines it.
LAYERS = {
    "dense": (nn.Sequential(nn.Linear(30, 4)), (30,), True),
    "many outputs": (nn.Sequential(nn.Conv2d(3, 16, 3, padding=1)), (3, 5, 5), True),
    "few outputs": (nn.Sequential(nn.Conv2d(3, 12, 4, 2, 2, bias=False)), (3, 16, 16), False),
    "groups": (nn.Sequential(nn.Conv2d(4, 16, 3, 2, 1, groups=2)), (4, 8, 8), False),
    "dilated": (nn.Sequential(nn.Conv2d(2, 8, 3, padding=2, dilation=2)), (2, 9, 9), False),
    "pooled": (nn.Sequential(nn.Conv2d(2, 12, 3, padding=1), nn.AvgPool2d(2)), (2, 8, 8), True),
}


def problem(name: str, *, noise: float = 1e-16, known: bool = True, count: int = 2):
    model, shape, complete = LAYERS[name]
    model = drawn(model, 2)
    step = chain_of(model, shape).steps[0]
    source = generator(3)
    inputs = torch.randn(count, *shape, generator=source, dtype=torch.float64)
    outputs = model(inputs).detach()
    k = torch.randn(outputs.shape, generator=source, dtype=torch.float64).flatten(1)
    own = layer_gradient(step, k)
    gradient = LayerEquations(step, own).gradient(inputs.flatten(1))
    size = gradient.square().mean(1).sqrt()
    gradient = gradient + noise * size[:, None] * torch.randn(
        gradient.shape, generator=source, dtype=torch.float64
    )
    values = outputs.flatten(1)
    values = values + noise * torch.randn(values.shape, generator=source, dtype=torch.float64)
    behind = Known(
        values if known else None,
        torch.full((count, 1), noise, dtype=torch.float64),
        k,
        torch.zeros(count, dtype=torch.float64),
    )
    deviation = (noise * size)[:, None].expand(count, len(step.weight))
    return LayerProblem(step, gradient, deviation, behind, own), inputs.flatten(1), complete


@pytest.mark.parametrize("name", LAYERS)
def test_the_input_comes_back_with_an_error_as_predicted(name):
    of, inputs, complete = problem(name, noise=1e-8)
    found = solve_layer(of)
    error = (found.inputs - inputs).square().mean(1).sqrt()
    assert (error < 30 * found.error).all()
    assert (error > found.error / 30).all()
    assert (error < 1e-5).all()
    assert (found.deficit == 0).all()
    assert found.unknowns == inputs.shape[1]
    assert (found.gradient_residual < 1e-5).all()
    assert of.spectrum.complete == complete


@pytest.mark.parametrize("name", [name for name, layer in LAYERS.items() if layer[2]])
def test_the_gradient_alone_suffices_where_it_determines_the_input(name):
    of, inputs, _ = problem(name, known=False)
    found = solve_layer(of)
    assert found.method == "direct"
    assert torch.allclose(found.inputs, inputs, atol=1e-9)


@pytest.mark.parametrize("name", LAYERS)
def test_the_rank_is_that_of_all_equations(name):
    of, _, _ = problem(name, count=1)
    unit = torch.eye(of.layer.unknowns, dtype=torch.float64)
    equations = LayerEquations(of.layer, of.output_gradient.expand(len(unit), -1))
    matrix = torch.cat(equations(unit), 1)
    matrix = matrix / matrix.norm(dim=0).clamp(min=1e-30)
    assert int(of.rank()[0]) == int(torch.linalg.matrix_rank(matrix, rtol=1e-10))


@pytest.mark.parametrize("name", ["few outputs", "groups", "many outputs", "dilated"])
def test_the_rank_behind_a_relu(name):
    of, _, _ = problem(name, count=1)
    active = of.behind.values > 0
    behind = Known(
        of.behind.values,
        torch.where(active, of.behind.error, torch.inf),
        of.behind.gradient * active,
        of.behind.gradient_error,
    )
    own = layer_gradient(of.layer, behind.gradient)
    of = LayerProblem(of.layer, of.gradient, of.noise, behind, own)
    unit = torch.eye(of.layer.unknowns, dtype=torch.float64)
    equations = LayerEquations(of.layer, own.expand(len(unit), -1))
    gradient, output = equations(unit)
    matrix = torch.cat([gradient, output[:, active[0]]], 1)
    matrix = matrix / matrix.norm(dim=0).clamp(min=1e-30)
    assert int(of.rank()[0]) == int(torch.linalg.matrix_rank(matrix, rtol=1e-10))


def test_a_deficit_leaves_the_solution_next_to_zero():
    # Two outputs of a convolution with stride beyond its kernel: most inputs are never seen.
    model = drawn(nn.Sequential(nn.Conv2d(1, 2, 2, stride=3, bias=False)), 2)
    step = chain_of(model, (1, 9, 9)).steps[0]
    inputs = torch.randn(1, 1, 9, 9, generator=generator(4), dtype=torch.float64)
    values = model(inputs).detach().flatten(1)
    k = torch.randn(values.shape, generator=generator(5), dtype=torch.float64)
    gradient = LayerEquations(step, k).gradient(inputs.flatten(1))
    small = torch.full((1, 1), 1e-14, dtype=torch.float64)
    behind = Known(values, small, k, torch.zeros(1, dtype=torch.float64))
    found = solve_layer(LayerProblem(step, gradient, small.expand(1, 2), behind, k))
    assert int(found.deficit[0]) == 81 - int(found.rank[0]) > 0
    unseen = torch.ones(9, 9, dtype=torch.bool)
    for row in range(0, 9, 3):
        for column in range(0, 9, 3):
            unseen[row : row + 2, column : column + 2] = False
    assert (found.inputs.reshape(9, 9)[unseen].abs() < 1e-10).all()
    assert torch.allclose(model(found.inputs.reshape(1, 1, 9, 9)).flatten(1), values, atol=1e-9)


def test_outputs_that_are_not_known_do_not_count():
    of, inputs, _ = problem("few outputs", noise=1e-12)
    behind = of.behind
    error = behind.error.expand_as(behind.values).clone()
    error[:, ::7] = torch.inf
    values = behind.values.clone()
    values[:, ::7] = 1e3
    spoilt = Known(values, error, behind.gradient, behind.gradient_error)
    found = solve_layer(LayerProblem(of.layer, of.gradient, of.noise, spoilt, of.output_gradient))
    assert torch.allclose(found.inputs, inputs, atol=1e-6)
