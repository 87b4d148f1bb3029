"""How numbers and foreign text are written in a report."""

from __future__ import annotations

import math
import unicodedata

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Emoji are joined by it; every other invisible character could hide or reorder text.
_JOINER = "\u200d"


def number(value: float | None, digits: int = 3) -> str:
    """Write a number for a person: grouped thousands, or a power of ten.

    Args:
        value: Any number, or None.
        digits: Significant digits of what is no whole number.

    Returns:
        The text; ``"unknown"`` for None and ``"not finite"`` for infinities and nan.

    Example:
        >>> number(2_000_000_000), number(3.14159e-7), number(0.25), number(None)
        ('2,000,000,000', '3.14 × 10⁻⁷', '0.25', 'unknown')
    """
    if value is None:
        return "unknown"
    if not math.isfinite(value):
        return "not finite"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if 1e-3 <= abs(value) < 1e6:
        # As many decimals as the significant digits need, but never an exponent.
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{decimals}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa} \u00d7 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def duration(seconds: float) -> str:
    """Write a time span.

    Example:
        >>> duration(0.04), duration(12.3), duration(75), duration(7322)
        ('0.04 s', '12.3 s', '1 min 15 s', '2 h 2 min')
    """
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 60:
        return f"{number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def count(total: int, noun: str, plural: str = "") -> str:
    """Write a number of things.

    Example:
        >>> count(1, "record"), count(1200, "record"), count(0, "copy", "copies")
        ('1 record', '1,200 records', '0 copies')
    """
    return f"{total:,} {noun if total == 1 else plural or noun + 's'}"


def plain(text: object, limit: int = 160) -> str:
    r"""Make foreign text printable: no controls, nothing that reorders or hides text, no bulk.

    Names of layers, labels, columns and files come from outside. Escaping markup is the template's
    work; this makes what markup does not stop visible instead: control characters, bidirectional
    overrides, zero-width characters, lone surrogates, stacks of accents.

    Args:
        text: Anything; `str` of it is shown.
        limit: Characters to keep; the number of all of them is then stated.

    Example:
        >>> plain("fc1\u202e\x1b[31m"), plain("é" * 300, 4)
        ('fc1\\u202e\\x1b[31m', 'éééé… (300 characters)')
    """
    full = str(text)
    shown = unicodedata.normalize("NFC", full[:limit])
    marks = 0
    clean = []
    for character in shown:
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        hidden = category in ("Cc", "Cs", "Cf", "Zl", "Zp", "Co") and character != _JOINER
        if hidden:
            clean.append(character.encode("unicode_escape").decode("ascii"))
        elif marks <= 2:
            clean.append(character)
    shown = "".join(clean)
    return shown if len(full) <= limit else f"{shown}… ({len(full):,} characters)"
