"""A defence curve as one HTML file that needs nothing else: no script, no network."""

from __future__ import annotations

from pathlib import Path

from gradaudit.defending.answer import answers
from gradaudit.defending.curve import DefenseCurve
from gradaudit.report.defend_figures import bars_picture, series_pictures
from gradaudit.report.defend_table import guarantee_text, table, training_note
from gradaudit.report.defend_wording import NO_PROMISE, answer_text
from gradaudit.report.environment import environment
from gradaudit.report.text import count, duration, number
from gradaudit.tensorfile import replacing
from gradaudit.version import __version__


def render_defense_curve(curve: DefenseCurve, *, title: str | None = None) -> str:
    """Render a curve as a self-contained HTML5 page, which holds no record.

    Args:
        curve: From `gradaudit.defense_curve`.
        title: The page's heading.

    Returns:
        The page; the same curve gives the same text.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    found = answers(curve)
    open_ones = [answer for answer in found if answer.cheapest is None]
    return (
        environment()
        .get_template("defend.html")
        .render(
            title=title or "Defences tried on a federated-learning client",
            curve=curve,
            # Never reassuring: what was not recovered here may be elsewhere.
            tone="leak" if open_ones else "open",
            answers=[answer_text(answer, curve) for answer in found],
            no_promise=NO_PROMISE,
            facts=_facts(curve),
            columns=table(curve),
            remarks=[r for r in (guarantee_text(curve), training_note(curve), *curve.notes) if r],
            bars=bars_picture(curve),
            series=series_pictures(curve),
            version=__version__,
        )
    )


def write_defense_curve(curve: DefenseCurve, path: str | Path, *, title: str | None = None) -> None:
    """Write `render_defense_curve`'s page to a file, atomically.

    Args:
        curve: As `render_defense_curve` takes it.
        path: The file to write or replace.
        title: As `render_defense_curve` takes it.

    Raises:
        InputError: The path cannot be written to.
        MissingExtraError: matplotlib is not installed.
    """
    page = render_defense_curve(curve, title=title)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _facts(curve: DefenseCurve) -> list[tuple[str, str]]:
    runs = sum(len(point.runs) for point in curve.points)
    limit = "none" if curve.seconds is None else duration(curve.seconds)
    return [
        ("Settings", number(len(curve.points))),
        ("Audits", number(runs)),
        ("Seeds", count(len(curve.seeds), "seed")),
        ("Time limit", limit),
        ("Attack", curve.attack),
        ("Certified", count(curve.certified, "record")),
    ]
