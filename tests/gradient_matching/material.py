"""Small networks, their updates, and the targets made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gradaudit.clients import FedSGD
from gradaudit.gradient_matching import Knowledge, Target, make_target
from gradaudit.models import mlp
from gradaudit.preprocessing import Preprocessing
from gradaudit.update import Update

SHAPE = (1, 6, 6)


@dataclass(frozen=True, eq=False)
class Sample:
    model: nn.Module
    inputs: Tensor
    labels: Tensor
    update: Update
    target: Target


def convolutional(activation: type[nn.Module] = nn.Sigmoid, outputs: int = 4) -> nn.Sequential:
    """A network of one convolution and one layer, with weights that are not small."""
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), activation(), nn.Flatten(), nn.Linear(216, outputs)
    ).double()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5, generator=generator)
    return model


def fully_connected(bias: bool = True, outputs: int = 4, activation: str = "sigmoid") -> nn.Module:
    return mlp(36, [40], outputs, activation=activation, bias=bias, dtype=torch.float64)


def sample(
    model: nn.Module,
    labels: tuple[int, ...] = (2,),
    *,
    loss: str = "cross_entropy",
    seed: int = 0,
    **client: Any,
) -> Sample:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(len(labels), *SHAPE, generator=generator, dtype=torch.float64)
    classes = torch.tensor(labels)
    update, _ = FedSGD(model, loss, **client).update(inputs, classes, Preprocessing(SHAPE))
    return Sample(model, inputs, classes, update, make_target(model, update, loss, Knowledge()))
