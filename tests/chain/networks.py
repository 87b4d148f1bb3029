"""Small networks of every kind of step, for tests of chains and of what walks them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Functional(nn.Module):
    """Modules and functional calls mixed, with pooling before the activation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding="same")
        self.pool = nn.AvgPool2d(2)
        self.head = nn.Linear(2 * 16, 5)

    def forward(self, images: Tensor) -> Tensor:
        hidden = torch.sigmoid(self.pool(self.conv(images)))
        return functional.dropout(
            functional.leaky_relu(self.head(hidden.view(hidden.size(0), -1)), negative_slope=0.3),
            0.5,
            self.training,
        )


class Block(nn.Module):
    """A residual block; the shortcut is the identity, or a convolution of kernel 1."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = nn.Sequential()
        if inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False))

    def forward(self, images: Tensor) -> Tensor:
        hidden = functional.relu(self.norm1(self.conv1(images)))
        hidden = self.conv2(hidden)
        hidden += self.shortcut(images)
        return functional.relu(hidden)


def residual() -> nn.Sequential:
    """Two residual blocks between convolution and head."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.LeakyReLU(0.2),
        Block(4, 4, 1),
        Block(4, 8, 2),
        nn.Flatten(),
        nn.Linear(8 * 4, 3),
    )


def drawn(model: nn.Module, seed: int = 0, scale: float = 0.3) -> nn.Module:
    """The same in float64 and evaluation mode, with weights and statistics drawn from a seed."""
    generator = torch.Generator().manual_seed(seed)
    model = model.double().eval()
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point():
            values = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype) * scale
            tensor.data.copy_(values)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_var.abs_().add_(0.5)
            if module.affine:
                module.weight.data.abs_().add_(0.5)
    return model
