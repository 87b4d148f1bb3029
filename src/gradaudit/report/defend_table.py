"""A defence curve as a table of texts, for a terminal and a page alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gradaudit.defending.curve import DefenseCurve, Point
from gradaudit.report.defend_wording import accuracy_text, outcomes_text, training_text
from gradaudit.report.text import number, plain

MISSING = "\u2013"


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: Its heading.
        meaning: What its cells are, in a sentence.
        cells: One a point.
        is_number: Whether cells are numbers, to be aligned so.
    """

    title: str
    meaning: str
    cells: tuple[str, ...]
    is_number: bool = True


def table(curve: DefenseCurve) -> tuple[Column, ...]:
    """The columns that tell the points apart, and those of what came of them.

    What all points share is left out: a client's settings where there is one client, and figures
    that no point has.

    Args:
        curve: The points; at least one.

    Returns:
        Columns of one length.
    """
    close = f"{number(curve.close_psnr)} dB"
    told: list[tuple[str, str, Callable[[Point], str], bool]] = [
        ("Records", "of the client", lambda p: number(p.setting.batch_size), True),
        ("Width", "neurons of each hidden layer", lambda p: number(p.setting.width), True),
        ("Client", "what it does with its records", lambda p: training_text(p.setting), False),
    ]
    found: list[tuple[str, str, Callable[[Point], str], bool]] = [
        ("Outcome", "of the audits", outcomes_text, False),
        (
            "Certified",
            "records recovered and certified, of those in all audits",
            lambda p: f"{p.certified:,} of {p.records:,}",
            True,
        ),
        (
            f"Within {close}",
            f"records known to {close} PSNR or better by the truth, certified or not",
            lambda p: f"{p.close:,}",
            True,
        ),
        (
            "Estimated error",
            "median error of an entry that the audit expects, which does not know the truth",
            lambda p: _maybe(p.estimated_error),
            True,
        ),
        ("True error", "the same against the truth", lambda p: _maybe(p.true_error), True),
        (
            "Distortion",
            "sine of the angle between what is sent with and without the defence, 0 to 1",
            lambda p: _maybe(p.distortion),
            True,
        ),
        ("Epsilon", "differential privacy's, by Opacus' accountant", _epsilon, True),
        (
            "Accuracy",
            "of a model trained with this defence, on held-out records, and its standard error",
            lambda p: MISSING if p.trained is None else accuracy_text(p.trained),
            True,
        ),
        ("Seconds", "median of an audit's", lambda p: _maybe(p.seconds), True),
    ]
    points = curve.points
    columns = [
        Column(
            "Defence",
            "what the client does before it sends anything",
            tuple(plain(p.setting.defense, 200) for p in points),
            False,
        )
    ]
    for title, meaning, cell, is_number in told:
        cells = tuple(cell(point) for point in points)
        if len(set(cells)) > 1:
            columns.append(Column(title, meaning, cells, is_number))
    for title, meaning, cell, is_number in found:
        cells = tuple(cell(point) for point in points)
        if set(cells) != {MISSING}:
            columns.append(Column(title, meaning, cells, is_number))
    return tuple(columns)


def _maybe(value: float | None) -> str:
    return MISSING if value is None else number(value)


def _epsilon(point: Point) -> str:
    if point.privacy is None:
        return MISSING
    return "infinite" if math.isinf(point.privacy.epsilon) else number(point.privacy.epsilon)


def guarantee_text(curve: DefenseCurve) -> str:
    """What the epsilons are counted over; empty without any.

    Example:
        >>> guarantee_text(DefenseCurve("", (), (0,), "auto", "mse", "float64", 60.0, 20.0))
        ''
    """
    found = {
        (p.privacy.delta, p.privacy.sampling_rate, p.privacy.steps, p.privacy.accountant)
        for p in curve.points
        if p.privacy is not None
    }
    return " ".join(
        f"Epsilon at delta = {number(delta)}, after {number(steps)} steps that take each record "
        f"with probability {number(rate)} ({accountant})."
        for delta, rate, steps, accountant in sorted(found)
    )


def training_note(curve: DefenseCurve) -> str:
    """How models were trained for their accuracy; empty if none was."""
    if curve.training is None:
        return ""
    return (
        f"Accuracy after {curve.training.rounds:,} rounds with one client of the kind stated, a "
        f"step of Adam at {number(curve.training.learning_rate)} each, on the "
        f"{curve.training.held_out:.0%} of at most {curve.training.records:,} records that were "
        "held out; one training each."
    )
