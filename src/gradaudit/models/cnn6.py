"""CNN6 and CNN6-d, the networks that R-GAP was shown on, and shown to fail on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from gradaudit.models.parts import Parts, check_image

# (kernel, stride, padding) of the convolutions.
GEOMETRY = ((4, 2, 2), (3, 2, 1), (3, 1, 1), (3, 1, 1), (3, 2, 1), (3, 1, 1))
CHANNELS = (12, 36, 36, 36, 64, 128)
CHANNELS_D = (12, 20, 36, 36, 64, 128)


def cnn6(
    input_shape: Sequence[int] = (3, 32, 32),
    *,
    num_classes: int = 1,
    bias: bool = False,
    activation: str = "leaky_relu",
    channels: Sequence[int] = CHANNELS,
    init: str = "pytorch",
    init_std: float | None = None,
    generator: torch.Generator | None = None,
    seed: int = 0,
    dtype: torch.dtype | str = torch.float32,
) -> nn.Sequential:
    """Make CNN6: six convolutions and one fully connected layer, without bias.

    =====  ==================  =======================  ==================
    layer  output at 32 x 32   weight                   stride, padding
    =====  ==================  =======================  ==================
    conv1  12 x 17 x 17        12 x 3 x 4 x 4           2, 2
    conv2  36 x 9 x 9          36 x 12 x 3 x 3          2, 1
    conv3  36 x 9 x 9          36 x 36 x 3 x 3          1, 1
    conv4  36 x 9 x 9          36 x 36 x 3 x 3          1, 1
    conv5  64 x 5 x 5          64 x 36 x 3 x 3          2, 1
    conv6  128 x 5 x 5         128 x 64 x 3 x 3         1, 1
    fc     classes             classes x 3200           -
    =====  ==================  =======================  ==================

    Args:
        input_shape: (channels, height, width).
        num_classes: Outputs; 1 is the paper's single logit.
        bias: Whether layers have a bias.
        activation: One of `gradaudit.models.ACTIVATIONS`; ``leaky_relu`` has the paper's slope 0.2.
        channels: Outputs of the six convolutions.
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
        Zhu and Blaschko, arXiv 2010.07733, and the layer sizes of its published code.

    Example:
        >>> cnn6()(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 1])
    """
    inputs, height, width = check_image(input_shape, num_classes, smallest=1)
    parts = Parts(
        activation,
        bias=bias,
        init=init,
        init_std=init_std,
        generator=generator,
        seed=seed,
        dtype=dtype,
    )
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (outputs, (kernel, stride, padding)) in enumerate(
        zip(channels, GEOMETRY, strict=True), start=1
    ):
        modules[f"conv{number}"] = parts.convolution(
            inputs, outputs, kernel=kernel, stride=stride, padding=padding
        )
        modules[f"{activation}{number}"] = parts.activation()
        inputs = outputs
        height, width = ((size + 2 * padding - kernel) // stride + 1 for size in (height, width))
    modules["flatten"] = nn.Flatten()
    modules["fc"] = parts.dense(inputs * height * width, num_classes)
    return nn.Sequential(modules)


def cnn6_d(
    input_shape: Sequence[int] = (3, 32, 32),
    *,
    num_classes: int = 1,
    bias: bool = False,
    activation: str = "leaky_relu",
    init: str = "pytorch",
    init_std: float | None = None,
    generator: torch.Generator | None = None,
    seed: int = 0,
    dtype: torch.dtype | str = torch.float32,
) -> nn.Sequential:
    """Make CNN6-d: CNN6 with 20 instead of 36 channels in the second convolution.

    Its second layer has fewer independent equations than unknowns at 32 x 32.

    Args:
        input_shape: (channels, height, width).
        num_classes: Outputs; 1 is the paper's single logit.
        bias: Whether layers have a bias.
        activation: One of `gradaudit.models.ACTIVATIONS`; ``leaky_relu`` has the paper's slope 0.2.
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
        Zhu and Blaschko, arXiv 2010.07733, and the layer sizes of its published code.

    Example:
        >>> cnn6_d().conv2.weight.shape
        torch.Size([20, 12, 3, 3])
    """
    return cnn6(
        input_shape,
        num_classes=num_classes,
        bias=bias,
        activation=activation,
        channels=CHANNELS_D,
        init=init,
        init_std=init_std,
        generator=generator,
        seed=seed,
        dtype=dtype,
    )
