"""A network named in text, as on a command line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from gradaudit.errors import InputError
from gradaudit.models.mlp import ACTIVATIONS, INITIALISATIONS, mlp
from gradaudit.options import Options, split_options

_EXPECTED = "'mlp:INPUTS-WIDTH-...-OUTPUTS' or 'package.module:factory'"


def parse_model(text: str, *, seed: int = 0, generator: torch.Generator | None = None) -> nn.Module:
    """Make the network that a text names.

    - ``mlp:3072-200-200-10`` is `mlp`, with ``activation``, ``bias``, ``init``, ``init_std`` and
      ``dtype`` as options: ``mlp:3072-200-10?activation=tanh&init=normal&init_std=0.5``.
    - ``package.module:factory`` imports the module, from the current folder too, and calls the
      factory without arguments, or takes the object if it is a ``torch.nn.Module`` already. This
      runs that module's code. What the factory draws from torch's global generator is determined
      by the seed, and the global generator is left as it was.

    Args:
        text: The text.
        seed: Starts a generator when none is given.
        generator: Source of all randomness.

    Returns:
        The network.

    Raises:
        InputError: The text names no network, or the factory fails.

    Example:
        >>> parse_model("mlp:4-3-2?activation=tanh").tanh1
        Tanh()
    """
    name, options = split_options("model", text)
    family, colon, rest = name.partition(":")
    if not colon or not family or not rest:
        raise InputError("model", repr(text), _EXPECTED)
    if family == "mlp":
        return _parse_mlp(rest, options, seed, generator)
    options.finish()
    drawn = seed
    if generator is not None:
        drawn = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    return _import_model(text, family, rest, drawn)


def _parse_mlp(
    text: str, options: Options, seed: int, generator: torch.Generator | None
) -> nn.Module:
    try:
        sizes = [int(size) for size in text.split("-")]
    except ValueError as error:
        raise InputError("model", repr(text), "sizes such as 3072-200-10") from error
    if len(sizes) < 2:
        raise InputError("model", repr(text), "at least inputs and outputs, such as 3072-10")
    activation = options.choice("activation", tuple(ACTIVATIONS), "relu")
    bias = options.flag("bias", True)
    init = options.choice("init", INITIALISATIONS, "pytorch")
    init_std = options.number("init_std")
    dtype = options.text("dtype", "float32")
    options.finish()
    return mlp(
        sizes[0],
        sizes[1:-1],
        sizes[-1],
        activation=activation,
        bias=bias,
        init=init,
        init_std=init_std,
        generator=generator,
        seed=seed,
        dtype=dtype,
    )


def _import_model(text: str, module_name: str, attribute: str, seed: int) -> nn.Module:
    try:
        with _current_folder_importable(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            found = importlib.import_module(module_name)
            for part in attribute.split("."):
                found = getattr(found, part)
            # Again: a first import may draw numbers that a second one, from cache, does not.
            torch.manual_seed(seed)
            model = found if isinstance(found, nn.Module) or not callable(found) else found()
    # Somebody else's code: whatever it raises is about this argument, and its exit is not ours.
    except (Exception, SystemExit) as error:
        raise InputError(
            "model",
            f"{text!r}, which fails with {type(error).__name__}: {error}",
            _EXPECTED,
            "check that the module can be imported and the factory needs no argument",
        ) from error
    if not isinstance(model, nn.Module):
        raise InputError(
            "model", f"{text!r}, a {type(model).__name__}", "a torch.nn.Module or its factory"
        )
    return model


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    """Make modules beside the user findable; last in line, so that they hide no other module."""
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        yield
    finally:
        # The imported module may have changed the path itself: take out one entry, the last.
        if folder in sys.path:
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]
