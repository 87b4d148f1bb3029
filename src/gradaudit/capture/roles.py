"""What a file's entries are: weights, gradient, difference, or tensors that do not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from gradaudit.capture.contents import Contents
from gradaudit.errors import InputError
from gradaudit.hostile import check_tensors, reason

WEIGHTS = "weights"
GRADIENT = "gradient"
DELTA = "delta"
WEIGHTS_AFTER = "weights_after"
MAX_NAME_LENGTH = 1000
MAX_ENTRIES = 10**9

# The role of tensors in a file that does not say what they are.
UNSAID = ""

Parts = dict[str, dict[str, Tensor]]

ALIASES: Mapping[str, str] = {
    "weights": WEIGHTS,
    "weights_before": WEIGHTS,
    "state_dict": WEIGHTS,
    "model": WEIGHTS,
    "model_state_dict": WEIGHTS,
    "gradient": GRADIENT,
    "gradients": GRADIENT,
    "grad": GRADIENT,
    "grads": GRADIENT,
    "delta": DELTA,
    "weights_after": WEIGHTS_AFTER,
    "WEIGHTS": WEIGHTS,
    "WEIGHT_DIFF": DELTA,
}


def split_roles(contents: Contents) -> Parts:
    """Sort a file's entries by what they are.

    Four layouts: nested (``{"weights": {...}, "gradient": {...}}``), prefixed
    (``weights/NAME``; with a dot only where every observed name has a weight), what NVFlare
    exchanges (``{"kind": "WEIGHT_DIFF", "data": {...}}``), or plain.

    Args:
        contents: What a reader found.

    Returns:
        Named tensors by role; plain tensors under `UNSAID`.

    Raises:
        InputError: The entries are no tensors, are mixed, or give one role twice.

    Example:
        >>> import torch
        >>> entries = {"weights/a": torch.ones(1), "grads/a": torch.ones(1)}
        >>> sorted(split_roles(Contents("update.npz", entries, file_bytes=8)))
        ['gradient', 'weights']
    """
    entries = _exchanged(contents.path, _mapping(contents.path, contents.entries))
    parts = _nested(contents.path, entries)
    if parts is None:
        tensors = _tensors(contents.path, entries)
        parts = _prefixed(contents.path, tensors, "/") or _dotted(contents.path, tensors)
        parts = parts or {UNSAID: tensors}
    everything = {f"{role}/{name}": t for role, part in parts.items() for name, t in part.items()}
    check_tensors(contents.path, everything, contents.file_bytes)
    return parts


def _mapping(where: str, value: Any) -> dict[str, Any]:
    """A mapping with text keys; a sequence is named by position."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        raise InputError(
            where,
            f"a single {type(value).__name__}",
            "named tensors",
            "save a mapping from parameter name to tensor, such as model.state_dict()",
        )
    if not value:
        raise InputError(where, "no entries", "named tensors")
    for key in value:
        if type(key) not in (str, int):
            raise InputError(where, f"a {type(key).__name__} as a key", "a parameter's name")
        if (type(key) is int and abs(key) > MAX_ENTRIES) or (
            type(key) is str and len(key) > MAX_NAME_LENGTH
        ):
            raise InputError(where, "a key too long to be a name", "a parameter's name")
    named = {str(key): entry for key, entry in value.items()}
    if len(named) != len(value):
        raise InputError(where, "one key both as text and as number", "one of each")
    return named


def _tensors(where: str, entries: Mapping[str, Any]) -> dict[str, Tensor]:
    for name, entry in entries.items():
        if not isinstance(entry, Tensor):
            raise InputError(
                f"{where}[{_short(name)}]",
                f"a {type(entry).__name__}",
                "a tensor",
                "save a flat mapping from parameter name to tensor, such as model.state_dict()",
            )
    return dict(entries)


def _exchanged(where: str, entries: dict[str, Any]) -> dict[str, Any]:
    """A data exchange object of NVFlare as a group under the name of its kind."""
    kind, data = entries.get("kind"), entries.get("data")
    if not isinstance(kind, str) or not isinstance(data, Mapping):
        return entries
    if kind not in ALIASES:
        raise InputError(
            where,
            f"an exchange of the kind {_short(kind)}",
            "'WEIGHT_DIFF' or 'WEIGHTS'",
            "save what a client sends after training",
        )
    return {kind: data}


def _nested(where: str, entries: Mapping[str, Any]) -> Parts | None:
    parts: Parts = {}
    for key, entry in entries.items():
        if key in ALIASES and isinstance(entry, Mapping | list | tuple):
            inner = f"{where}[{key!r}]"
            _add(where, parts, ALIASES[key], _tensors(inner, _mapping(inner, entry)))
    if not parts:
        return None
    # A checkpoint has counters and an optimiser beside its weights; loose tensors are a mistake.
    loose = [key for key, entry in entries.items() if isinstance(entry, Tensor)]
    if loose:
        raise InputError(
            where,
            f"the tensor {_short(loose[0])} beside the group {next(iter(parts))!r}",
            "every tensor in a group",
        )
    return parts


def _prefixed(where: str, tensors: Mapping[str, Tensor], separator: str) -> Parts | None:
    """Group by prefix when every name has a known one; None when none has."""
    parts: Parts = {}
    seen: dict[str, str] = {}
    loose = []
    for name, tensor in tensors.items():
        prefix, found, rest = name.partition(separator)
        if not found or prefix not in ALIASES or not rest:
            loose.append(name)
            continue
        role = ALIASES[prefix]
        if seen.setdefault(role, prefix) != prefix:
            raise _twice(where, role, f"{seen[role]!r} and {prefix!r}")
        parts.setdefault(role, {})[rest] = tensor
    if parts and loose:
        if separator == ".":
            return None
        raise InputError(
            where,
            f"{_short(loose[0])} without a prefix among prefixed names",
            "'weights/NAME' and 'gradient/NAME' throughout",
        )
    return parts or None


def _dotted(where: str, tensors: Mapping[str, Tensor]) -> Parts | None:
    """The same with a dot, which module paths have too: only where nothing else makes sense."""
    try:
        parts = _prefixed(where, tensors, ".")
    except InputError:
        return None
    if parts is None or WEIGHTS not in parts or len(parts) != 2:
        return None
    observed = next(part for role, part in parts.items() if role != WEIGHTS)
    return parts if set(observed) <= set(parts[WEIGHTS]) else None


def _add(where: str, parts: Parts, role: str, tensors: dict[str, Tensor]) -> None:
    if role in parts:
        raise _twice(where, role, "two entries")
    parts[role] = tensors


def _twice(where: str, role: str, found: str) -> InputError:
    return InputError(where, f"{found} for the {role}", "one of them", f"keep one, named {role!r}")


def _short(name: str) -> str:
    return repr(reason(ValueError(name))[:60])
