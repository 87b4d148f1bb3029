"""Noisy updates of known records."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.clients import FedSGD
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Problem, Setting, build_problem
from gradaudit.models import mlp
from gradaudit.noisy import factors_above_noise, measure_noise
from gradaudit.truth import Truth
from gradaudit.update import LinearLayer, Update

BATCH_SIZE, WIDTH, FEATURES = 6, 150, 80


@dataclass(frozen=True)
class Case:
    """A noisy update, what made it, and the first layer's problem."""

    update: Update
    truth: Truth
    layer: LinearLayer
    problem: Problem
    level: float
    true_gradients: Tensor

    @property
    def inputs(self) -> Tensor:
        return self.truth.inputs.double()

    @property
    def hidden(self) -> Tensor:
        """Inputs of the second layer."""
        assert self.layer.bias is not None
        return torch.relu(self.inputs @ self.layer.weight.T + self.layer.bias)

    def errors_of(self, records: Tensor) -> tuple[Tensor, Tensor]:
        """Root mean square distance to the nearest true record, and which one that is."""
        distance = torch.cdist(records, self.inputs) / self.inputs.shape[1] ** 0.5
        return distance.min(1)


def noisy_case(
    relative: float, *, batch_size: int = BATCH_SIZE, seed: int = 0, alike: float | None = None
) -> Case:
    """An update with noise of so much of the root mean square of the first layer's gradient.

    With `alike`, the second record differs from the first by so much of its size, and in nothing
    else.
    """
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(batch_size, FEATURES, generator=generator, dtype=torch.float64)
    labels = torch.arange(batch_size) % 4
    if alike is not None:
        inputs[1] = inputs[0] + alike * inputs[1]
        labels[1] = labels[0]
    model = mlp(FEATURES, [WIDTH, 60], 4, seed=seed, dtype=torch.float64)
    clean, truth = FedSGD(model).update(inputs, labels)
    gradient = clean.gradient
    assert gradient is not None
    weight = gradient["fc1.weight"]
    level = relative * float(weight.square().mean().sqrt())
    noisy = {
        name: value + level * torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in gradient.items()
    }
    update = Update(clean.weights, noisy, noise=level)
    layer = next(iter(update.linear_layers()))
    factors = factor_gradient(layer.weight_gradient, generator=generator)
    values = factors.values.new_tensor(factors.spectrum.singular_values)
    measured, rank = measure_noise(values, layer.shape)
    problem = build_problem(
        layer, factors_above_noise(factors, measured, rank), Setting.SPARSE_GRADIENT
    )
    true_gradients = torch.linalg.lstsq(inputs.T, weight.T).solution.T
    return Case(update, truth, layer, problem, level, true_gradients)
