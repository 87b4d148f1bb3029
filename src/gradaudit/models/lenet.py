"""LeNet as gradient-inversion papers use it: strides instead of pooling, invertible activations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from gradaudit.models.parts import Parts, check_image

CHANNELS = 12
STRIDES = (2, 2, 1)


def lenet(
    input_shape: Sequence[int] = (1, 28, 28),
    *,
    num_classes: int = 1,
    bias: bool = False,
    activation: str = "sigmoid",
    init: str = "pytorch",
    init_std: float | None = None,
    generator: torch.Generator | None = None,
    seed: int = 0,
    dtype: torch.dtype | str = torch.float32,
) -> nn.Sequential:
    """Make the LeNet of DLG and R-GAP: three convolutions and one fully connected layer.

    Each convolution has 12 channels, 5 x 5 kernels and padding 2; the strides are 2, 2, 1.

    ========  ==============  ==============  =================
    layer     28 x 28 grey    32 x 32 colour  weight
    ========  ==============  ==============  =================
    conv1     12 x 14 x 14    12 x 16 x 16    12 x C x 5 x 5
    conv2     12 x 7 x 7      12 x 8 x 8      12 x 12 x 5 x 5
    conv3     12 x 7 x 7      12 x 8 x 8      12 x 12 x 5 x 5
    fc        classes         classes         classes x 588, 768
    ========  ==============  ==============  =================

    R-GAP's LeNet has sigmoids, a single logit and no bias; its LeNet*, most likely,
    ``activation="leaky_relu"``. DLG's, for 32 x 32 colour, has as many outputs as classes, biases,
    and weights uniform on (-0.5, 0.5) (``init="uniform"``).

    Args:
        input_shape: (channels, height, width); 28 x 28 grey and 32 x 32 colour are the papers'.
        num_classes: Outputs; 1 is R-GAP's single logit.
        bias: Whether layers have a bias.
        activation: One of `gradaudit.models.ACTIVATIONS`; ``leaky_relu`` has slope 0.2.
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
        Zhu et al., arXiv 1906.08935; Zhu and Blaschko, arXiv 2010.07733.

    Example:
        >>> lenet((3, 32, 32), num_classes=10)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
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
    for number, stride in enumerate(STRIDES, start=1):
        modules[f"conv{number}"] = parts.convolution(
            inputs, CHANNELS, kernel=5, stride=stride, padding=2
        )
        modules[f"{activation}{number}"] = parts.activation()
        # 5 x 5 kernels with padding 2 keep the size, strides halve it upwards.
        inputs, height, width = CHANNELS, -(-height // stride), -(-width // stride)
    modules["flatten"] = nn.Flatten()
    modules["fc"] = parts.dense(CHANNELS * height * width, num_classes)
    return nn.Sequential(modules)
