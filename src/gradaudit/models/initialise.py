"""Weights drawn from one generator: the same rules for dense and convolutional layers."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from gradaudit.errors import InputError

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "softplus": nn.Softplus,
    "gelu": nn.GELU,
    "identity": nn.Identity,
}
INITIALISATIONS = ("pytorch", "kaiming", "xavier", "normal", "uniform")

# Half the width of ``uniform``: that of DLG's published code (Zhu et al., arXiv 1906.08935).
UNIFORM_BOUND = 0.5


def check_initialisation(activation: str, init: str, init_std: float | None) -> None:
    """Check the words and the number that a network is asked for with.

    Raises:
        InputError: One of them cannot be used.

    Example:
        >>> check_initialisation("relu", "normal", 0.1)
    """
    if activation not in ACTIVATIONS:
        raise InputError("activation", repr(activation), "one of " + ", ".join(ACTIVATIONS))
    if init not in INITIALISATIONS:
        raise InputError("init", repr(init), "one of " + ", ".join(INITIALISATIONS))
    if init_std is not None and init != "normal":
        raise InputError("init_std", f"{init_std} with init={init!r}", "init='normal' beside it")
    if init_std is not None and not 0 < init_std < math.inf:
        raise InputError("init_std", repr(init_std), "a positive number")


def initialise(
    layer: nn.Linear | nn.Conv2d,
    init: str,
    init_std: float | None,
    generator: torch.Generator,
) -> None:
    """Draw a layer's weight and bias, in place.

    With n the inputs that one output sees (channels times taps for a convolution) and m the
    outputs that one input reaches:

    - ``pytorch``: weight and bias uniform on (-1/sqrt(n), 1/sqrt(n)). With the same seed the
      numbers are those of ``torch.nn.Linear`` and ``torch.nn.Conv2d``, bit for bit.
    - ``kaiming``: weight normal with variance 2/n (He et al., arXiv 1502.01852), bias 0.
    - ``xavier``: weight uniform with variance 2/(n + m) (Glorot and Bengio, AISTATS 2010), bias 0.
    - ``normal``: weight and bias normal with standard deviation `init_std`, 1/sqrt(n) by default.
    - ``uniform``: weight and bias uniform on (-0.5, 0.5), as in DLG (arXiv 1906.08935).

    Args:
        layer: The layer.
        init: One of `INITIALISATIONS`.
        init_std: Standard deviation for ``normal``.
        generator: Source of all randomness.

    Example:
        >>> layer = nn.Linear(4, 2)
        >>> initialise(layer, "uniform", None, torch.Generator().manual_seed(0))
        >>> bool((layer.weight.abs() <= 0.5).all())
        True
    """
    fan_in = layer.weight[0].numel()
    # A layer made without a bias holds None, which torch's annotation does not say.
    biases = [bias for name, bias in layer.named_parameters() if name == "bias"]
    if init == "pytorch":
        # This call and sqrt(5) are torch's own: they round the bound as it does.
        nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
        bound = 1 / math.sqrt(fan_in)
        for vector in biases:
            nn.init.uniform_(vector, -bound, bound, generator=generator)
    elif init == "normal":
        std = 1 / math.sqrt(fan_in) if init_std is None else init_std
        for tensor in (layer.weight, *biases):
            nn.init.normal_(tensor, 0.0, std, generator=generator)
    elif init == "uniform":
        for tensor in (layer.weight, *biases):
            nn.init.uniform_(tensor, -UNIFORM_BOUND, UNIFORM_BOUND, generator=generator)
    else:
        if init == "kaiming":
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
        else:
            nn.init.xavier_uniform_(layer.weight, generator=generator)
        for vector in biases:
            nn.init.zeros_(vector)
