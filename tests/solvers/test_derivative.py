from __future__ import annotations

import torch
from rgap.networks import drawn, generator, uniform
from torch.func import functional_call, grad

from gradaudit.solvers.derivative import Derivative


def gradient_of_a_network():
    model = drawn(torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Sigmoid()), 0)
    weights = dict(model.named_parameters())

    def gradient(inputs: torch.Tensor) -> torch.Tensor:
        found = grad(lambda w: functional_call(model, w, (inputs,)).square().sum())(weights)
        return torch.cat([part.flatten() for part in found.values()])

    return gradient


def test_products_are_those_of_the_jacobian():
    function, inputs = gradient_of_a_network(), uniform(2, 6)
    matrix = torch.autograd.functional.jacobian(function, inputs).flatten(1)
    derivative = Derivative(function, inputs)
    assert torch.equal(derivative.values, function(inputs).detach())
    direction = torch.randn(1, 12, generator=generator(1), dtype=torch.float64)
    rows = torch.randn(1, len(matrix), generator=generator(2), dtype=torch.float64)
    assert torch.allclose(derivative.apply(direction), direction @ matrix.T)
    assert torch.allclose(derivative.adjoint(rows), rows @ matrix)
    with torch.no_grad():
        assert torch.allclose(Derivative(function, inputs).apply(direction), direction @ matrix.T)


def test_decomposed_it_solves_least_squares():
    function, inputs = gradient_of_a_network(), uniform(2, 6)
    matrix = torch.autograd.functional.jacobian(function, inputs).flatten(1)
    values = torch.randn(len(matrix), generator=generator(2), dtype=torch.float64)
    found = Derivative(function, inputs).decompose()
    assert found.complete
    assert torch.allclose(found.solve(values), torch.linalg.pinv(matrix) @ values)
