"""Fully connected networks with readable names and all randomness from one generator."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from gradaudit.errors import InputError
from gradaudit.models.initialise import ACTIVATIONS
from gradaudit.models.parts import Parts, check_parameters


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

    Args:
        inputs: Features of a flattened record.
        widths: Neurons of each hidden layer; empty for a linear classifier.
        outputs: Neurons of the last layer: the classes, or 1 for a binary logit.
        activation: One of `ACTIVATIONS`.
        bias: Whether layers have a bias.
        init: One of `INITIALISATIONS`; `gradaudit.models.initialise` says what each is.
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
    _check(sizes)
    parts = Parts(
        activation,
        bias=bias,
        init=init,
        init_std=init_std,
        generator=generator,
        seed=seed,
        dtype=dtype,
    )
    modules: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    last = len(sizes) - 1
    for index in range(1, last + 1):
        modules[f"fc{index}"] = parts.dense(sizes[index - 1], sizes[index])
        if index < last:
            modules[f"{activation}{index}"] = ACTIVATIONS[activation]()
    return nn.Sequential(modules)


def _check(sizes: Sequence[int]) -> None:
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError("layer sizes", repr(size), "whole numbers of 1 or more")
    check_parameters(sum((n + 1) * m for n, m in pairwise(sizes)))
