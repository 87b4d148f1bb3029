"""What the caller says of an update and what its file says: one answer, or an error."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from gradaudit.errors import InputError
from gradaudit.update import GradientStep, LocalTraining, Step

# What a step may leave unknown, and somebody else may know.
_UNKNOWN_IF_NONE = ("learning_rate", "records")


def given_step(learning_rate: float | None, training: LocalTraining | None) -> Step:
    """The step that a caller describes.

    Args:
        learning_rate: Of the step or steps, or None.
        training: Local training, or None for a single gradient.

    Raises:
        InputError: The training has another learning rate.

    Example:
        >>> given_step(0.1, LocalTraining(epochs=2)).learning_rate
        0.1
    """
    if training is None:
        return GradientStep(learning_rate)
    if learning_rate is None or learning_rate == training.learning_rate:
        return training
    if training.learning_rate is not None:
        raise InputError(
            "learning_rate",
            repr(learning_rate),
            f"{training.learning_rate!r}, as the training has",
            "leave it out",
        )
    return replace(training, learning_rate=learning_rate)


def agreed_step(where: str, saved: Step, given: Step) -> Step:
    """The step that a file describes, completed by what the caller knows.

    Args:
        where: The file, for messages.
        saved: As the file says.
        given: As the caller says; a `GradientStep` may stand for nothing but a learning rate.

    Raises:
        InputError: They contradict each other.

    Example:
        >>> agreed_step("u", LocalTraining(epochs=2), GradientStep(0.1))
        ...     # doctest: +ELLIPSIS
        LocalTraining(learning_rate=0.1, epochs=2, ...)
    """
    if isinstance(given, LocalTraining) and isinstance(saved, GradientStep):
        raise InputError(
            "training",
            "local training",
            f"one gradient, which {Path(where).name!r} says",
            "leave it out",
        )
    names = (
        ["learning_rate"] if isinstance(given, GradientStep) else [f.name for f in fields(given)]
    )
    known = {}
    for name in names:
        known[name] = agreed(where, name, getattr(saved, name), getattr(given, name))
    return replace(saved, **known)


def agreed(where: str, name: str, saved: Any, given: Any) -> Any:
    """One value of two, of which one may be unknown.

    Args:
        where: The file, for messages.
        name: What the value is.
        saved: As the file says.
        given: As the caller says.

    Raises:
        InputError: They differ.

    Example:
        >>> agreed("u", "noise", None, 0.5)
        0.5
    """
    unknown = name in (*_UNKNOWN_IF_NONE, "noise")
    if saved == given or (given is None and unknown):
        return saved
    if saved is None and unknown:
        return given
    raise InputError(
        name, repr(given), f"{saved!r}, which {Path(where).name!r} says", "leave it out"
    )
