"""A network named in text, as on a command line."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gradaudit.errors import InputError
from gradaudit.models.cnn6 import cnn6, cnn6_d
from gradaudit.models.initialise import ACTIVATIONS, INITIALISATIONS
from gradaudit.models.lenet import lenet
from gradaudit.models.mlp import mlp
from gradaudit.models.resnet import resnet18
from gradaudit.models.vgg import vgg_small
from gradaudit.options import Options, split_options

NAMED: dict[str, Callable[..., nn.Module]] = {
    "lenet": lenet,
    "cnn6": cnn6,
    "cnn6_d": cnn6_d,
    "vgg_small": vgg_small,
    "resnet18": resnet18,
}
_EXPECTED = (
    f"'mlp:INPUTS-WIDTH-...-OUTPUTS', 'package.module:factory', or one of {', '.join(NAMED)}"
)


def parse_model(text: str, *, seed: int = 0, generator: torch.Generator | None = None) -> nn.Module:
    """Make the network that a text names.

    - ``mlp:3072-200-200-10`` is `mlp`, with ``activation``, ``bias``, ``init``, ``init_std`` and
      ``dtype`` as options: ``mlp:3072-200-10?activation=tanh&init=normal&init_std=0.5``.
    - ``lenet``, ``cnn6``, ``cnn6_d``, ``vgg_small`` and ``resnet18`` are the functions of that
      name, with their arguments as options: ``resnet18?input_shape=3,16,16&without_skip=3``.
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
    if name in NAMED:
        return _parse_named(name, options, seed, generator)
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


def parse_model_on(
    text: str, input_shape: Sequence[int] | None, *, seed: int = 0
) -> tuple[nn.Module, tuple[int, ...]]:
    """Make the network that a text names, and say which records it takes.

    Args:
        text: As for `parse_model`.
        input_shape: Of a record; None for that of the text, or of the paper's network.
        seed: Starts the generator.

    Raises:
        InputError: The text names no network, says another shape, or leaves it open.

    Example:
        >>> parse_model_on("lenet", (3, 32, 32))[0].fc.in_features
        768
        >>> parse_model_on("mlp:12-5-3", None)[1]
        (12,)
    """
    name, options = split_options("model", text)
    asked = None if input_shape is None else tuple(input_shape)
    usual: tuple[int, ...] | None = None
    if name in NAMED:
        given = options.given("input_shape")
        if asked is not None and not given:
            sizes = ",".join(map(str, asked))
            text = f"{text}{'&' if '?' in text else '?'}input_shape={sizes}"
            usual = asked
        elif given:
            usual = _whole_numbers(options, "input_shape")
        else:
            usual = inspect.signature(NAMED[name]).parameters["input_shape"].default
    elif name.startswith("mlp:"):
        first = name.removeprefix("mlp:").partition("-")[0]
        # Python reads no number of thousands of digits; as a size, `parse_model` refuses it.
        usual = (int(first),) if first.isdecimal() and len(first) < 20 else None
    model = parse_model(text, seed=seed)
    shape = asked or usual
    if shape is None:
        raise InputError(
            "input_shape",
            "none",
            "the shape of a record that the model takes",
            "give input_shape=C,H,W",
        )
    if usual is not None and shape != usual and name in NAMED:
        raise InputError("input_shape", str(shape), f"{usual}, as the model says")
    return model, shape


def _parse_mlp(
    text: str, options: Options, seed: int, generator: torch.Generator | None
) -> nn.Module:
    try:
        sizes = [int(size) for size in text.split("-")]
    except ValueError as error:
        raise InputError("model", repr(text), "sizes such as 3072-200-10") from error
    if len(sizes) < 2:
        raise InputError("model", repr(text), "at least inputs and outputs, such as 3072-10")
    style = _style(options, {"activation": "relu", "bias": True})
    options.finish()
    return mlp(sizes[0], sizes[1:-1], sizes[-1], generator=generator, seed=seed, **style)


def _parse_named(
    name: str, options: Options, seed: int, generator: torch.Generator | None
) -> nn.Module:
    function = NAMED[name]
    usual = {key: p.default for key, p in inspect.signature(function).parameters.items()}
    given = _style(options, usual)
    given["num_classes"] = options.integer("num_classes", usual["num_classes"])
    if options.given("input_shape"):
        given["input_shape"] = _whole_numbers(options, "input_shape")
    if "without_skip" in usual:
        given["without_skip"] = _whole_numbers(options, "without_skip")
    for key in {"width", "hidden"} & set(usual):
        given[key] = options.integer(key, usual[key])
    for key in {"halving", "normalisation"} & set(usual):
        given[key] = options.text(key, usual[key])
    options.finish()
    return function(generator=generator, seed=seed, **given)


def _style(options: Options, usual: Mapping[str, Any]) -> dict[str, Any]:
    """The options that all networks have."""
    return {
        "activation": options.choice("activation", tuple(ACTIVATIONS), usual["activation"]),
        "bias": options.flag("bias", usual["bias"]),
        "init": options.choice("init", INITIALISATIONS, "pytorch"),
        "init_std": options.number("init_std"),
        "dtype": options.text("dtype", "float32"),
    }


def _whole_numbers(options: Options, key: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in options.names(key))
    except ValueError as error:
        raise InputError(f"model option {key!r}", repr(options.text(key, "")), "1,2,3") from error


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
