"""What the settings of a defence must be."""

from __future__ import annotations

import math
import sys
from typing import Any

from gradaudit.errors import InputError


def check_number(name: str, value: Any, low: float, high: float, *, open_below: bool) -> None:
    """Refuse what is no finite number from ``low`` to ``high``.

    Args:
        name: The setting.
        value: What was given.
        low: The least value, or the bound above which it must be.
        high: The largest value.
        open_below: Whether ``low`` itself is refused.

    Raises:
        InputError: It is not such a number.

    Example:
        >>> check_number("share", 2, 0, 1, open_below=False)
        Traceback (most recent call last):
        gradaudit.errors.InputError: share: found 2, expected a number, 0 or more, at most 1
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # `math.isfinite` raises an error at whole numbers that no double can hold.
    if is_number and abs(value) <= sys.float_info.max:
        above = value > low if open_below else value >= low
        if above and value <= high:
            return
    least = f"above {low:g}" if open_below else f"{low:g} or more"
    most = f", at most {high:g}" if math.isfinite(high) else ""
    raise InputError(name, repr(value), f"a number, {least}{most}")


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Refuse what is no whole number from ``low`` to ``high``.

    Raises:
        InputError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(name, repr(value), f"a whole number from {low} to {high}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse what is none of the choices.

    Raises:
        InputError: It is not.
    """
    if value not in choices:
        raise InputError(name, repr(value), "one of " + ", ".join(map(repr, choices)))


def check_truth_value(name: str, value: Any) -> None:
    """Refuse what is neither true nor false.

    Raises:
        InputError: It is not.
    """
    if not isinstance(value, bool):
        raise InputError(name, repr(value), "true or false")


def check_text(name: str, value: Any) -> None:
    """Refuse what is no text.

    Raises:
        InputError: It is not.
    """
    if not isinstance(value, str):
        raise InputError(name, repr(value), "a text")
