"""What whole numbers must be."""

from __future__ import annotations

from typing import Any

from gradaudit.errors import InputError


def check_count(name: str, value: Any) -> None:
    """Refuse what is no whole number of 1 or more.

    Raises:
        InputError: It is not.

    Example:
        >>> check_count("rounds", 0)
        Traceback (most recent call last):
        gradaudit.errors.InputError: rounds: found 0, expected a whole number, 1 or more
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(name, repr(value), "a whole number, 1 or more")
