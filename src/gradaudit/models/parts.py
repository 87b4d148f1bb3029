"""Layers of convolutional networks, drawn one after another from one generator."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from gradaudit.errors import InputError
from gradaudit.models.initialise import ACTIVATIONS, check_initialisation, initialise
from gradaudit.options import floating_dtype
from gradaudit.randomness import make_generator

# Slope of R-GAP's networks left of zero, where torch's default would be 0.01.
NEGATIVE_SLOPE = 0.2

# 16 GiB in float32: more is a slip of the keyboard, and is refused before it swallows the memory.
MAX_PARAMETERS = 2**32


class Parts:
    """Makes layers that share their style; each call draws the next weights.

    Args:
        activation: One of `ACTIVATIONS`; ``leaky_relu`` has slope 0.2, as in R-GAP's networks
            (arXiv 2010.07733).
        bias: Whether layers have a bias.
        init: One of `gradaudit.models.INITIALISATIONS`.
        init_std: Standard deviation for ``normal``.
        generator: Source of all randomness.
        seed: Starts a generator when none is given.
        dtype: float32 or float64.

    Raises:
        InputError: A word or a number cannot be used.

    Example:
        >>> Parts("tanh", bias=False).convolution(1, 12, kernel=5, padding=2).weight.shape
        torch.Size([12, 1, 5, 5])
    """

    def __init__(
        self,
        activation: str,
        *,
        bias: bool,
        init: str = "pytorch",
        init_std: float | None = None,
        generator: torch.Generator | None = None,
        seed: int = 0,
        dtype: torch.dtype | str = torch.float32,
    ) -> None:
        check_initialisation(activation, init, init_std)
        self._activation = activation
        self._bias = bias
        self._init = init
        self._init_std = init_std
        self._generator = make_generator(generator, seed)
        self._dtype = floating_dtype("dtype", dtype, ("float64", "float32"))

    def convolution(
        self,
        inputs: int,
        outputs: int,
        *,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        bias: bool | None = None,
    ) -> nn.Conv2d:
        """A convolution of square kernels; `bias` overrides the style's."""
        _check_size(inputs * kernel**2, outputs)
        # Made without memory first: the usual constructor draws from torch's global generator.
        layer = nn.Conv2d(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=padding,
            bias=self._bias if bias is None else bias,
            device="meta",
            dtype=self._dtype,
        ).to_empty(device="cpu")
        initialise(layer, self._init, self._init_std, self._generator)
        return layer

    def dense(self, inputs: int, outputs: int) -> nn.Linear:
        """A fully connected layer."""
        _check_size(inputs, outputs)
        layer = nn.Linear(
            inputs, outputs, bias=self._bias, device="meta", dtype=self._dtype
        ).to_empty(device="cpu")
        initialise(layer, self._init, self._init_std, self._generator)
        return layer

    def activation(self) -> nn.Module:
        """The nonlinearity."""
        if self._activation == "leaky_relu":
            return nn.LeakyReLU(NEGATIVE_SLOPE)
        return ACTIVATIONS[self._activation]()

    def batch_norm(self, channels: int) -> nn.BatchNorm2d:
        """Batch normalisation with PyTorch's start: scale 1, shift 0, unit running variance."""
        return nn.BatchNorm2d(channels, dtype=self._dtype)


def _check_size(weights_of_one: int, outputs: int) -> None:
    if isinstance(outputs, bool) or not isinstance(outputs, int) or outputs < 1:
        raise InputError("width of a layer", repr(outputs), "a whole number of 1 or more")
    check_parameters(weights_of_one * outputs)


def check_parameters(number: int) -> None:
    """Refuse sizes that are a slip of the keyboard.

    Args:
        number: Of a layer's or a network's weights.

    Raises:
        InputError: There are more than `MAX_PARAMETERS`.

    Example:
        >>> check_parameters(10**9)
    """
    if number > MAX_PARAMETERS:
        # Python writes no number of more than some thousands of digits.
        found = f"{number:,}" if number < 10**30 else "more than 10**30"
        raise InputError("layer sizes", f"{found} parameters", f"at most {MAX_PARAMETERS:,}")


def check_image(
    input_shape: Sequence[int], num_classes: int, *, smallest: int
) -> tuple[int, int, int]:
    """Check what a convolutional network is to take and to give.

    Args:
        input_shape: (channels, height, width).
        num_classes: Outputs; 1 is a single logit.
        smallest: Least height and width.

    Returns:
        The input's shape.

    Raises:
        InputError: A number cannot be used.

    Example:
        >>> check_image((3, 32, 32), 10, smallest=8)
        (3, 32, 32)
    """
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in input_shape)
    if len(input_shape) != 3 or not whole or min(input_shape[1:]) < smallest:
        raise InputError(
            "input_shape",
            str(tuple(input_shape)),
            f"channels, height, width; the last two {smallest} or more",
        )
    if isinstance(num_classes, bool) or not isinstance(num_classes, int) or num_classes < 1:
        raise InputError("num_classes", repr(num_classes), "1 (a single logit) or more")
    channels, height, width = input_shape
    return channels, height, width
