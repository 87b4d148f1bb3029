"""A small private training run, and Opacus's warnings that say nothing about what is tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

RECORDS, FEATURES, WIDTH, CLASSES = 24, 40, 100, 3
LEARNING_RATE = 0.1


@dataclass
class Private:
    """What ``make_private`` returned, and the plain model and records behind it."""

    engine: Any
    plain: nn.Module
    model: nn.Module
    optimizer: Any
    loader: Any
    loss: Any
    inputs: Tensor
    labels: Tensor

    def train(self, loader: Any = None) -> list[int]:
        """One epoch; the number of records in each batch of the loader."""
        sizes = []
        for inputs, labels in loader or self.loader:
            self.optimizer.zero_grad()
            self.loss(self.model(inputs), labels).backward()
            self.optimizer.step()
            sizes.append(len(inputs))
        return sizes


@pytest.fixture
def private() -> Callable[..., Private]:
    """Make a private run of a small float64 network; options go to ``make_private``."""
    pytest.importorskip("opacus.optimizers")
    from opacus import PrivacyEngine

    def make(
        batch_size: int = 8, reduction: str = "mean", seed: int = 0, **options: Any
    ) -> Private:
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(RECORDS, FEATURES, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, CLASSES, (RECORDS,), generator=generator)
        layers = nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES)
        plain = nn.Sequential(*layers).double()
        with torch.no_grad():
            for parameter in plain.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 6)
        engine = PrivacyEngine()
        options = {
            "noise_multiplier": 0.0,
            "max_grad_norm": 1.0,
            "poisson_sampling": False,
        } | options
        made = engine.make_private(
            module=plain,
            optimizer=torch.optim.SGD(plain.parameters(), lr=LEARNING_RATE),
            criterion=nn.CrossEntropyLoss(reduction=reduction),
            data_loader=DataLoader(TensorDataset(inputs, labels), batch_size=batch_size),
            loss_reduction=reduction,
            noise_generator=generator,
            **options,
        )
        model, optimizer, *loss, loader = made
        criterion = loss[0] if loss else nn.CrossEntropyLoss(reduction=reduction)
        return Private(engine, plain, model, optimizer, loader, criterion, inputs, labels)

    return make
