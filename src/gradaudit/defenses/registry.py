"""Defences by name, as on a command line."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from gradaudit.defenses.clip_per_record import ClipPerRecord
from gradaudit.defenses.clip_update import ClipUpdate
from gradaudit.defenses.defense import Defense
from gradaudit.defenses.dp_sgd import DPSGD
from gradaudit.defenses.gaussian_noise import GaussianNoise
from gradaudit.defenses.mask import Mask
from gradaudit.defenses.prune import Prune
from gradaudit.defenses.quantise import Quantise
from gradaudit.defenses.sign import Sign
from gradaudit.defenses.soteria import Soteria
from gradaudit.errors import InputError

DEFENSES: dict[str, type[Defense]] = {
    "clip-per-record": ClipPerRecord,
    "dp-sgd": DPSGD,
    "clip-update": ClipUpdate,
    "gaussian-noise": GaussianNoise,
    "prune": Prune,
    "sign": Sign,
    "quantise": Quantise,
    "mask": Mask,
    "soteria": Soteria,
}

# In place of a defence's name: none.
NO_DEFENSE = "none"

_WORDS: dict[str, Any] = {"true": True, "yes": True, "false": False, "no": False}


def parse_defense(text: str) -> Defense:
    """The defence that a text names: ``NAME`` or ``NAME:key=value,key=value``.

    Args:
        text: A name in `DEFENSES`, and its attributes; a key may be cut short where that is
            unambiguous.

    Raises:
        InputError: No such name or key, a value that the defence refuses, or one that is missing.

    Example:
        >>> parse_defense("dp-sgd:clip=2,noise=1e-4")
        DPSGD(clip=2, noise_multiplier=0.0001, expected_batch_size=None)
    """
    name, _, options = text.strip().partition(":")
    if name not in DEFENSES:
        raise InputError("defense", repr(name), "one of " + ", ".join(DEFENSES))
    kind = DEFENSES[name]
    settings: dict[str, Any] = {}
    # A layer may be called "4".
    texts = {field.name: field.type == "str" for field in fields(kind)}  # type: ignore[arg-type]
    for part in filter(None, options.split(",")):
        key, equals, value = part.partition("=")
        known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        full = [each for each in known if each == key] or [k for k in known if k.startswith(key)]
        if not (key and equals) or len(full) != 1 or full[0] in settings:
            raise InputError(
                f"defense {name}", repr(part), f"key=value, each key once, of {', '.join(known)}"
            )
        settings[full[0]] = value if texts[full[0]] else _value(value)
    missing = [each for each in _needed(kind) if each not in settings]
    try:
        # Without a value, a setting's own check says what it should be; those before it come first.
        made = kind(**settings, **dict.fromkeys(missing))
    except InputError as error:
        absent = error.argument in missing
        raise InputError(
            f"defense {name}: {error.argument}",
            f"no value in {options!r}" if absent else error.found,
            error.expected,
            f"write {name}:{','.join(f'{each}=VALUE' for each in _needed(kind))}" * absent,
        ) from error
    if missing:
        raise InputError(f"defense {name}: {missing[0]}", f"no value in {options!r}", "a value")
    return made


def _needed(kind: type[Defense]) -> list[str]:
    """The settings of a defence that have no default."""
    known = fields(kind)  # type: ignore[arg-type]
    return [each.name for each in known if each.default is MISSING]


def _value(text: str) -> Any:
    """A number, a truth value, or the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
