"""A small VGG-like network: pairs of 3 x 3 convolutions, each pair halving the image."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from gradaudit.errors import InputError
from gradaudit.models.parts import Parts, check_image

HALVINGS = ("max", "average", "stride")
WIDTHS = (32, 64, 128)


def vgg_small(
    input_shape: Sequence[int] = (3, 32, 32),
    *,
    num_classes: int = 10,
    bias: bool = True,
    activation: str = "relu",
    widths: Sequence[int] = WIDTHS,
    hidden: int = 512,
    halving: str = "max",
    init: str = "pytorch",
    init_std: float | None = None,
    generator: torch.Generator | None = None,
    seed: int = 0,
    dtype: torch.dtype | str = torch.float32,
) -> nn.Sequential:
    """Make a VGG-like network: stages of two convolutions, then two fully connected layers.

    Convolutions have 3 x 3 kernels and padding 1. At 32 x 32 with the default widths the stages
    end with 32 x 16 x 16, 64 x 8 x 8 and 128 x 4 x 4; ``fc1`` takes those 2048 features to
    `hidden`, ``fc2`` to the classes.

    Args:
        input_shape: (channels, height, width).
        num_classes: Outputs; 1 is a single logit.
        bias: Whether layers have a bias.
        activation: One of `gradaudit.models.ACTIVATIONS`; ``leaky_relu`` has slope 0.2.
        widths: Channels of each stage.
        hidden: Neurons of ``fc1``.
        halving: How a stage ends: 2 x 2 pooling after the activation (``max``, ``average``), or
            stride 2 in its second convolution (``stride``).
        init: One of `gradaudit.models.INITIALISATIONS`.
        init_std: Standard deviation for ``normal``.
        generator: Source of all randomness.
        seed: Starts a generator when none is given.
        dtype: float32 or float64.

    Returns:
        The network, on the CPU.

    Raises:
        InputError: An argument cannot be used.

    Source:
        After Simonyan and Zisserman, arXiv 1409.1556, section 2; smaller.

    Example:
        >>> vgg_small(num_classes=10)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    inputs, height, width = check_image(input_shape, num_classes, smallest=2 ** len(widths))
    if halving not in HALVINGS:
        raise InputError("halving", repr(halving), "one of " + ", ".join(HALVINGS))
    parts = Parts(
        activation,
        bias=bias,
        init=init,
        init_std=init_std,
        generator=generator,
        seed=seed,
        dtype=dtype,
    )
    strided = halving == "stride"
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    for stage, outputs in enumerate(widths, start=1):
        for place, stride in enumerate((1, 2 if strided else 1), start=1):
            modules[f"conv{stage}_{place}"] = parts.convolution(
                inputs, outputs, kernel=3, stride=stride, padding=1
            )
            modules[f"{activation}{stage}_{place}"] = parts.activation()
            inputs = outputs
        if not strided:
            modules[f"pool{stage}"] = nn.MaxPool2d(2) if halving == "max" else nn.AvgPool2d(2)
        # A stride keeps the last row of an odd size, pooling drops it.
        height, width = ((size + strided) // 2 for size in (height, width))
    modules["flatten"] = nn.Flatten()
    modules["fc1"] = parts.dense(inputs * height * width, hidden)
    modules[f"{activation}_fc1"] = parts.activation()
    modules["fc2"] = parts.dense(hidden, num_classes)
    return nn.Sequential(modules)
