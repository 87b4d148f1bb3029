"""What can go wrong because of the input, in one line that says what to do."""

from __future__ import annotations

import importlib
from types import ModuleType

# A line that a person still reads; a name in a file may be a megabyte. The end has the remedy.
_LONGEST, _END = 1_500, 500


class GradauditError(Exception):
    """Base of every error this package raises on purpose; its text is one line."""


class InputError(GradauditError, ValueError):
    """An argument, a file or a tensor cannot be used as given.

    Args:
        argument: The argument, file or tensor that is wrong.
        found: What was found there.
        expected: What was expected instead.
        remedy: What the caller can do about it.

    Example:
        >>> print(InputError("layer", "'fc9'", "one of 'fc1', 'fc2'", "pass layer='fc1'"))
        layer: found 'fc9', expected one of 'fc1', 'fc2'; pass layer='fc1'
    """

    def __init__(self, argument: str, found: str, expected: str, remedy: str = "") -> None:
        self.argument = argument
        self.found = found
        self.expected = expected
        self.remedy = remedy
        text = f"{argument}: found {found}, expected {expected}"
        if remedy:
            text += f"; {remedy}"
        text = " ".join(text.split())
        # Names in hostile files may hold terminal control sequences.
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST - _END]} ... {text[-_END:]}"
        super().__init__(text)

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str, str]]:
        return type(self), (self.argument, self.found, self.expected, self.remedy)


class MissingExtraError(GradauditError, ImportError):
    """An optional dependency is not installed; the text names the extra that brings it."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency or say which extra brings it.

    Args:
        module: The module's import path.
        extra: The extra of this package that installs it.

    Returns:
        The imported module.

    Raises:
        MissingExtraError: The module is not installed, or something that it needs.

    Example:
        >>> require("json", "data").__name__
        'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        # What it needs itself may be missing or broken, and its own name would mislead.
        missing = (error.name or "").partition(".")[0]
        absent = isinstance(error, ModuleNotFoundError) and missing == package
        found = "is not installed" if absent else f"cannot be imported ({error})"
        raise MissingExtraError(
            f"{package} {found}; run: pip install 'gradaudit[{extra}]'"
        ) from error
