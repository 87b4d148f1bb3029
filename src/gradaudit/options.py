"""Choices written as text on a command line: ``name?key=value&key=value``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import torch

from gradaudit.errors import InputError

_TRUE = ("true", "yes", "1", "on")
_FALSE = ("false", "no", "0", "off")
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


def split_options(argument: str, text: str) -> tuple[str, Options]:
    """Split ``name?key=value&key=value`` into the name and its options.

    ``%26`` and the like stand for characters that would be taken for separators.

    Args:
        argument: What to call the text in an error.
        text: The text.

    Returns:
        The name and the options.

    Raises:
        InputError: A part is not ``key=value``, or a key comes twice.

    Example:
        >>> name, options = split_options("data", "patches?size=64")
        >>> name, options.integer("size", 32)
        ('patches', 64)
    """
    name, _, query = text.strip().partition("?")
    values: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        key, equals, value = part.partition("=")
        if not equals or not key or key in values:
            raise InputError(
                argument, repr(part), "key=value, each key once", "write name?key=value&key=value"
            )
        values[key] = unquote(value)
    return name, Options(argument, values)


class Options:
    """Text options that are read by type; `finish` refuses those that nobody read.

    Args:
        argument: What to call the options in an error.
        values: The texts by key.

    Example:
        >>> Options("data", {"normalise": "no"}).flag("normalise", True)
        False
    """

    def __init__(self, argument: str, values: Mapping[str, str]) -> None:
        self.argument = argument
        self._values = dict(values)
        self._known: list[str] = []

    def given(self, key: str) -> bool:
        """Whether the option was written."""
        self._known.append(key)
        return key in self._values

    def text(self, key: str, default: str) -> str:
        """The option as text."""
        return self._values[key] if self.given(key) else default

    def integer(self, key: str, default: int) -> int:
        """The option as a whole number."""
        text = self.text(key, str(default))
        try:
            return int(text)
        except ValueError as error:
            raise self._wrong(key, text, "a whole number") from error

    def number(self, key: str) -> float | None:
        """The option as a finite number, None when it is not given."""
        if not self.given(key):
            return None
        try:
            value = float(self._values[key])
        except ValueError as error:
            raise self._wrong(key, self._values[key], "a number") from error
        if not math.isfinite(value):
            raise self._wrong(key, self._values[key], "a finite number")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """The option as yes or no."""
        text = self.text(key, str(default)).lower()
        if text not in _TRUE + _FALSE:
            raise self._wrong(key, text, "true or false")
        return text in _TRUE

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """The option as one of several words."""
        text = self.text(key, default)
        if text not in choices:
            raise self._wrong(key, text, "one of " + ", ".join(choices))
        return text

    def names(self, key: str) -> tuple[str, ...]:
        """The option as names between commas."""
        return tuple(name for name in self.text(key, "").split(",") if name)

    def finish(self) -> None:
        """Check that every option given is one that was asked for.

        Raises:
            InputError: One is not.
        """
        for key in self._values:
            if key not in self._known:
                known = ", ".join(dict.fromkeys(self._known)) or "no option here"
                raise InputError(self.argument, f"the unknown option {key!r}", f"one of {known}")

    def _wrong(self, key: str, found: str, expected: str) -> InputError:
        return InputError(f"{self.argument} option {key!r}", repr(found), expected)


def floating_dtype(
    argument: str, value: torch.dtype | str, allowed: Sequence[str] = tuple(DTYPES)
) -> torch.dtype:
    """A floating-point type, given as itself or by name.

    Raises:
        InputError: It is not one of the allowed ones.

    Example:
        >>> floating_dtype("dtype", "float32")
        torch.float32
    """
    name = str(value).removeprefix("torch.")
    if name not in allowed:
        raise InputError(argument, repr(name), "one of " + ", ".join(allowed))
    return DTYPES[name]
