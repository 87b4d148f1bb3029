"""Reading dataclasses back from JSON values, strictly: the counterpart of `dataclasses.asdict`."""

from __future__ import annotations

import dataclasses
import math
import reprlib
import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from gradaudit.errors import InputError

T = TypeVar("T")

# A whole number that is none below zero, as an annotation that `decode` enforces.
Count = Annotated[int, "at least 0"]


def decode(kind: Any, value: Any, where: str, *, null_is_infinite: bool = True) -> Any:
    """Read a JSON value as a type, accepting exactly what `dataclasses.asdict` writes of it.

    Dataclasses must have all their fields and no others; true is no number and 1.0 no whole one.
    JSON has no infinities, so they are written as null; a plain ``float`` reads null back as
    infinity, a ``float | None`` reads it back as None.

    Args:
        kind: A dataclass, an enum, ``str``, ``bool``, ``int``, ``float``, `Count`, a tuple, a
            ``dict`` or ``Mapping`` with text keys, or one of these or None.
        value: What `json.loads` gave.
        where: What the value is, for the error.
        null_is_infinite: False makes null wrong for a plain ``float``.

    Returns:
        The value.

    Raises:
        InputError: The value is not of that type; says where in it.

    Example:
        >>> decode(tuple[int, ...], [3, 4], "shape")
        (3, 4)
        >>> decode(tuple[int, ...], [3, "4"], "shape")
        Traceback (most recent call last):
        gradaudit.errors.InputError: shape[1]: found '4', expected a whole number
    """
    return _decode(kind, value, where, null_is_infinite)


def _decode(kind: Any, value: Any, where: str, lenient: bool) -> Any:  # noqa: PLR0911 - one a kind
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        (inner,) = (option for option in get_args(kind) if option is not types.NoneType)
        return None if value is None else _decode(inner, value, where, lenient)
    if origin is Annotated:
        number = _decode(int, value, where, lenient)
        if number < 0:
            raise _wrong(where, value, "a whole number, at least 0")
        return number
    if origin is tuple:
        return _tuple(get_args(kind), value, where, lenient)
    if origin is not None and issubclass(origin, Mapping):
        inner = get_args(kind)[1]
        items = _typed(dict, value, where, "an object").items()
        return {key: _decode(inner, item, f"{where}.{key}", lenient) for key, item in items}
    if dataclasses.is_dataclass(kind):
        return _dataclass(cast(type, kind), value, where, lenient)
    if issubclass(kind, Enum):
        return _enum(kind, value, where)
    return _SCALARS[kind](value, where, lenient)


def _wrong(where: str, value: Any, expected: str) -> InputError:
    return InputError(where[-200:], reprlib.repr(value), expected)


def _typed(kind: type[T], value: Any, where: str, expected: str) -> T:
    if not isinstance(value, kind):
        raise _wrong(where, value, expected)
    return value


def _text(value: Any, where: str, lenient: bool) -> str:
    return _typed(str, value, where, "text")


def _truth_value(value: Any, where: str, lenient: bool) -> bool:
    return _typed(bool, value, where, "true or false")


def _whole(value: Any, where: str, lenient: bool) -> int:
    if isinstance(value, bool):
        raise _wrong(where, value, "a whole number")
    return _typed(int, value, where, "a whole number")


def _real(value: Any, where: str, lenient: bool) -> float:
    if value is None and lenient:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(where, value, "a number")
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise _wrong(where, value, "a number that a double can hold")
    # Whole counters stay whole, so that a result is written again as it was read.
    return value


_SCALARS: dict[type, Callable[[Any, str, bool], Any]] = {
    str: _text,
    bool: _truth_value,
    int: _whole,
    float: _real,
}


def _tuple(kinds: tuple[Any, ...], value: Any, where: str, lenient: bool) -> tuple[Any, ...]:
    items = _typed(list, value, where, "a list")
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(items)
    if len(kinds) != len(items):
        raise InputError(where, f"{len(items)} values", f"{len(kinds)} values")
    return tuple(
        _decode(kind, item, f"{where}[{index}]", lenient)
        for index, (kind, item) in enumerate(zip(kinds, items, strict=True))
    )


def _enum(kind: type[Enum], value: Any, where: str) -> Enum:
    for member in kind:
        if type(value) is type(member.value) and value == member.value:
            return member
    raise _wrong(where, value, "one of " + ", ".join(repr(member.value) for member in kind))


def _dataclass(kind: type, value: Any, where: str, lenient: bool) -> Any:
    names = [field.name for field in dataclasses.fields(kind)]
    check_keys(_typed(dict, value, where, "an object"), names, where)
    hints = get_type_hints(kind, include_extras=True)
    return kind(
        **{name: _decode(hints[name], value[name], f"{where}.{name}", lenient) for name in names}
    )


def check_keys(value: Mapping[str, Any], names: list[str], where: str) -> None:
    """Check that a mapping has exactly these keys.

    Raises:
        InputError: One is missing or too much.

    Example:
        >>> check_keys({"a": 1}, ["a", "b"], "result")
        Traceback (most recent call last):
        gradaudit.errors.InputError: result: found no 'b', expected exactly the keys 'a', 'b'
    """
    missing = [name for name in names if name not in value]
    unknown = [name for name in value if name not in names]
    if missing or unknown:
        found = f"no {missing[0]!r}" if missing else f"the unknown key {reprlib.repr(unknown[0])}"
        wanted = ", ".join(repr(name) for name in names)
        raise InputError(where[-200:], found, f"exactly the keys {wanted}")
