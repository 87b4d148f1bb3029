"""Layers in a row with gradients of known records, for tests of what the later layers tell."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.clients import FedSGD
from gradaudit.models import mlp
from gradaudit.models.losses import get_loss
from gradaudit.noisy import FeedForward
from gradaudit.update import Update


@dataclass(frozen=True)
class Known:
    """A batch, the layers it went through, and the layers' gradients with noise."""

    network: FeedForward
    records: Tensor
    labels: Tensor
    level: float
    weights: Tensor

    @property
    def activation_gradients(self) -> Tensor:
        """True dL/dZ of the first layer, of each record's own loss, one a row."""
        return self.deltas()[0]

    def deltas(self) -> list[Tensor]:
        """The same of every layer, by autograd."""
        inputs = self.records.clone().requires_grad_()
        sides, current = [], inputs
        for number, layer in enumerate(self.network.layers):
            current = current @ layer.weight.T
            current = current if layer.bias is None else current + layer.bias
            sides.append(current)
            current = torch.relu(current) if number + 1 < len(self.network.layers) else current
        loss = self.network.loss(current, self.labels, reduction="sum")
        return list(torch.autograd.grad(loss, sides))

    def floor(self) -> Tensor:
        """Error of an entry of each record by least squares with the true gradients."""
        gradients = self.activation_gradients * self.weights[:, None]
        return self.level * torch.linalg.inv(gradients @ gradients.T).diagonal().sqrt()

    def errors(self, records: Tensor) -> Tensor:
        """Root mean square error of each record, in the order of the true ones."""
        return (records - self.records).square().mean(1).sqrt()


def known(
    relative: float,
    *,
    batch_size: int = 6,
    features: int = 80,
    widths: tuple[int, ...] = (150, 60),
    seed: int = 0,
) -> Known:
    """Records, and gradients with noise of so much of the first one's root mean square."""
    generator = torch.Generator().manual_seed(1000 + seed)
    records = torch.randn(batch_size, features, generator=generator, dtype=torch.float64)
    labels = torch.arange(batch_size) % 4
    model = mlp(features, list(widths), 4, seed=seed, dtype=torch.float64)
    clean = FedSGD(model).update(records, labels)[0]
    assert clean.gradient is not None
    level = relative * float(clean.gradient["fc1.weight"].square().mean().sqrt())
    noisy = {
        name: value + level * torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in clean.gradient.items()
    }
    layers = list(Update(clean.weights, noisy, noise=level).linear_layers())
    network = FeedForward.of(layers, get_loss("cross_entropy"), device=records.device)
    assert network is not None
    weights = torch.full((batch_size,), 1 / batch_size, dtype=torch.float64)
    return Known(network, records, labels, level, weights)
