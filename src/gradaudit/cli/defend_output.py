"""A defence curve on the terminal, and in files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from gradaudit.cli.guard import silence
from gradaudit.cli.terminal import output, say, show_table
from gradaudit.defending import DefenseCurve, answers
from gradaudit.report.defend import write_defense_curve
from gradaudit.report.defend_table import guarantee_text, table, training_note
from gradaudit.report.defend_wording import NO_PROMISE, answer_text
from gradaudit.report.text import plain
from gradaudit.tensorfile import replacing


def tell(
    curve: DefenseCurve,
    *,
    curve_file: Path | None,
    report_file: Path | None,
    machine: bool,
    quiet: bool,
) -> None:
    """Write the files, and print the answer and the table.

    Args:
        curve: What was found.
        curve_file: Where the JSON goes, if anywhere.
        report_file: Where the page goes, if anywhere.
        machine: Print the JSON alone.
        quiet: Print the answer alone.

    Raises:
        InputError: A file cannot be written.
    """
    value = _value(curve)
    written = []
    if curve_file is not None:
        with replacing(curve_file) as temporary:
            temporary.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")
        written.append(curve_file)
    if report_file is not None:
        write_defense_curve(curve, report_file)
        written.append(report_file)
    if machine:
        try:
            click.echo(json.dumps(value, indent=2, allow_nan=False))
        except BrokenPipeError:
            silence(sys.stdout)
        return
    console = output()
    for found in value["answers"]:
        say(console, found["answer"], "bold")
        say(console, found["grounds"])
    if quiet:
        return
    _print(console, curve)
    for path in written:
        say(console, f"Written: {path}", "dim")


def _value(curve: DefenseCurve) -> dict[str, Any]:
    return {
        **curve.to_json(),
        "answers": [
            dict(zip(("answer", "grounds"), answer_text(answer, curve), strict=True))
            for answer in answers(curve)
        ],
        "limits": NO_PROMISE,
    }


def _print(console: Console, curve: DefenseCurve) -> None:
    if not curve.complete:
        say(console, "Stopped before all audits had ended.", "bold yellow")
    columns = table(curve)
    numbers = [place for place, column in enumerate(columns) if column.is_number]
    cells = list(zip(*(column.cells for column in columns), strict=True))
    show_table(console, [column.title for column in columns], cells, right=numbers)
    for column in columns[1:]:
        say(console, f"{column.title}: {column.meaning}.", "dim")
    for remark in (guarantee_text(curve), training_note(curve), *curve.notes):
        if remark:
            say(console, plain(remark, 600), "dim")
    say(console, NO_PROMISE)
