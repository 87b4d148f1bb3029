"""Networks with skip connections small enough for dense matrices."""

from __future__ import annotations

import torch
from torch import nn


class SmallBlock(nn.Module):
    """``conv2(tanh(conv1(x))) + shortcut(x)``."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(width, outputs, 3, padding=1, bias=False)
        plain = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if plain else nn.Conv2d(
            inputs, outputs, 1, stride=stride, bias=False
        )  # fmt: skip
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv2(torch.tanh(self.conv1(x))) + self.shortcut(x)
