"""Fully connected networks with readable names and all randomness from one generator."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

from gradaudit.errors import InputError
from gradaudit.options import floating_dtype
from gradaudit.randomness import make_generator

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
INITIALISATIONS = ("pytorch", "kaiming", "xavier", "normal")

# 16 GiB in float32: more is a slip of the keyboard, and is refused before it swallows the memory.
MAX_PARAMETERS = 2**32


def mlp(
    inputs: int,
    widths: Sequence[int],
    outputs: int,
    *,
    activation: str = "relu",
    bias: bool = True,
    init: str = "pytorch",
    init_std: float | None = None,
    generator: torch.Generator | None = None,
    seed: int = 0,
    dtype: torch.dtype | str = torch.float32,
) -> nn.Sequential:
    """Make a fully connected network: flatten, then layers ``fc1``, ``fc2``, ... and activations.

    The modules are named ``flatten``, ``fc1``, ``relu1``, ``fc2``, ..., so that the state dict
    reads ``fc1.weight``, ``fc1.bias``, and so on. No activation follows the last layer.

    Initialisations, with n the inputs of a layer and m its outputs:

    - ``pytorch``: weight and bias uniform on (-1/sqrt(n), 1/sqrt(n)). With the same seed the
      numbers are those of ``torch.nn.Linear``, bit for bit.
    - ``kaiming``: weight normal with variance 2/n (He et al., arXiv 1502.01852), bias 0.
    - ``xavier``: weight uniform with variance 2/(n + m) (Glorot and Bengio, AISTATS 2010), bias 0.
    - ``normal``: weight and bias normal with standard deviation `init_std`, 1/sqrt(n) by default.

    Args:
        inputs: Features of a flattened record.
        widths: Neurons of each hidden layer; empty for a linear classifier.
        outputs: Neurons of the last layer: the classes, or 1 for a binary logit.
        activation: One of `ACTIVATIONS`.
        bias: Whether layers have a bias.
        init: One of `INITIALISATIONS`.
        init_std: Standard deviation for ``normal``; must be positive.
        generator: Source of all randomness; torch's global generator is never touched.
        seed: Starts a generator when none is given.
        dtype: float32 or float64.

    Returns:
        The network, on the CPU, in training mode as PyTorch makes it.

    Raises:
        InputError: A size, a name or the standard deviation cannot be used.

    Example:
        >>> network = mlp(12, [5], 3)
        >>> [name for name, _ in network.named_parameters()]
        ['fc1.weight', 'fc1.bias', 'fc2.weight', 'fc2.bias']
        >>> network(torch.zeros(2, 3, 2, 2)).shape
        torch.Size([2, 3])
    """
    sizes = [inputs, *widths, outputs]
    _check(sizes, activation, init, init_std)
    kind = floating_dtype("dtype", dtype, ("float64", "float32"))
    randomness = make_generator(generator, seed)
    modules: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    last = len(sizes) - 1
    for index in range(1, last + 1):
        # Made without memory first: the usual constructor draws from torch's global generator.
        layer = nn.Linear(
            sizes[index - 1], sizes[index], bias=bias, device="meta", dtype=kind
        ).to_empty(device="cpu")
        _initialise(layer, init, init_std, randomness)
        modules[f"fc{index}"] = layer
        if index < last:
            modules[f"{activation}{index}"] = ACTIVATIONS[activation]()
    return nn.Sequential(modules)


def _check(sizes: Sequence[int], activation: str, init: str, init_std: float | None) -> None:
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError("layer sizes", repr(size), "whole numbers of 1 or more")
    parameters = sum((n + 1) * m for n, m in pairwise(sizes))
    if parameters > MAX_PARAMETERS:
        raise InputError("layer sizes", f"{parameters:,} parameters", f"at most {MAX_PARAMETERS:,}")
    if activation not in ACTIVATIONS:
        raise InputError("activation", repr(activation), "one of " + ", ".join(ACTIVATIONS))
    if init not in INITIALISATIONS:
        raise InputError("init", repr(init), "one of " + ", ".join(INITIALISATIONS))
    if init_std is not None and init != "normal":
        raise InputError("init_std", f"{init_std} with init={init!r}", "init='normal' beside it")
    if init_std is not None and not 0 < init_std < math.inf:
        raise InputError("init_std", repr(init_std), "a positive number")


def _initialise(
    layer: nn.Linear, init: str, init_std: float | None, generator: torch.Generator
) -> None:
    fan_in = layer.in_features
    # A layer made without a bias holds None, which torch's annotation does not say.
    biases = [bias for name, bias in layer.named_parameters() if name == "bias"]
    if init == "pytorch":
        # This call and sqrt(5) are torch.nn.Linear's own: they round the bound as it does.
        nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
        bound = 1 / math.sqrt(fan_in)
        for vector in biases:
            nn.init.uniform_(vector, -bound, bound, generator=generator)
    elif init == "normal":
        std = 1 / math.sqrt(fan_in) if init_std is None else init_std
        for tensor in (layer.weight, *biases):
            nn.init.normal_(tensor, 0.0, std, generator=generator)
    else:
        if init == "kaiming":
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
        else:
            nn.init.xavier_uniform_(layer.weight, generator=generator)
        for vector in biases:
            nn.init.zeros_(vector)
