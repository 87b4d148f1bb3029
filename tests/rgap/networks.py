"""Small networks that R-GAP is tried on, all drawn from a seed, in float64."""

from __future__ import annotations

import torch
from torch import Tensor, nn

ACTIVATIONS = {
    "leaky_relu": lambda: nn.LeakyReLU(0.2),
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "softplus": nn.Softplus,
}


def generator(seed: int = 0) -> torch.Generator:
    """A generator that starts with a seed."""
    return torch.Generator().manual_seed(seed)


def uniform(*shape: int, seed: int = 1) -> Tensor:
    """Numbers between 0 and 1, as of images."""
    return torch.rand(shape, generator=generator(seed), dtype=torch.float64)


def drawn(model: nn.Module, seed: int = 0, scale: float = 1.0) -> nn.Module:
    """Weights uniform with a spread as of PyTorch's initialisation, times a factor; eval mode."""
    source = generator(seed)
    model = model.double().eval()
    for parameter in model.parameters():
        bound = scale / max(1, parameter[0].numel()) ** 0.5
        values = torch.rand(parameter.shape, generator=source, dtype=torch.float64)
        parameter.data.copy_((2 * values - 1) * bound)
    return model


def small_cnn(
    activation: str = "leaky_relu",
    *,
    outputs: int = 3,
    channels: tuple[int, int] = (8, 12),
    bias: bool = False,
    seed: int = 0,
    scale: float = 1.7,
) -> nn.Module:
    """Two convolutions and a dense layer, for images of 2 x 8 x 8."""
    act = ACTIVATIONS[activation]
    first, second = channels
    return drawn(
        nn.Sequential(
            nn.Conv2d(2, first, 3, stride=2, padding=1, bias=bias),
            act(),
            nn.Conv2d(first, second, 3, padding=1, bias=bias),
            act(),
            nn.Flatten(),
            nn.Linear(second * 16, outputs, bias=bias),
        ),
        seed,
        scale,
    )
