"""``gradaudit audit`` of several updates: the run, its files, and what is said about it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradaudit.budget import Budget, Control, Progress
from gradaudit.bulk import AuditSettings, Reading, Summary, audit_many
from gradaudit.cli.exit_codes import ExitCode, run_exit_code
from gradaudit.cli.guard import silence
from gradaudit.cli.matching import knowledge_and_method
from gradaudit.cli.progress import progress_display
from gradaudit.cli.search import Manner
from gradaudit.cli.signals import stop_on_signals
from gradaudit.cli.terminal import output, say
from gradaudit.engine import Engine, Unit, WhenNeeded, open_engine
from gradaudit.errors import InputError, require
from gradaudit.report.bulk import (
    pages,
    status_words,
    write_summary_page,
    write_update_page,
)
from gradaudit.report.text import count, duration, plain

# More reasons, and more updates that leak, than this are read in the summary.
MAX_REASONS = 10
MAX_LEAKS = 5


def audit_updates(
    updates: tuple[Path, ...],
    settings: AuditSettings,
    reading: Reading,
    out: Path | None,
    manner: Manner,
    *,
    salt: str | None,
    alone: Mapping[str, Path | None],
    reports: bool,
    again: bool,
    total_seconds: float | None,
    engine: str | None,
    workers: int | None,
    address: str | None,
) -> ExitCode:
    """Audit several updates, write all files, and print the summary.

    Args:
        updates: Folders, patterns, manifests and files.
        settings: How each is audited.
        reading: What is said about all.
        out: The folder for the results.
        manner: How to tell.
        salt: Key of the reports' fingerprints.
        alone: Options that only one update may have.
        reports: Whether to write a page of each.
        again: Whether to audit again what is finished.
        total_seconds: Time for all together, or None.
        engine: Where audits run, as `gradaudit.engine.open_engine` takes it.
        workers: Likewise.
        address: Likewise.

    Returns:
        The exit code.

    Raises:
        InputError: An option does not fit, or the folder cannot be written to.
    """
    for name, value in alone.items():
        if value is not None:
            raise InputError(
                name,
                f"{str(value)!r} with several updates",
                "a single update",
                "see --out and --reports",
            )
    if out is None:
        raise InputError("--out", "none", "a folder for the results of several updates")
    if manner.show_records and not reports:
        raise InputError("--show-records", "it with several updates", "--reports beside it")
    if reports:
        require("matplotlib", "report")
        require("PIL", "report")
    knowledge_and_method(
        settings.attack,
        settings.batch_size,
        settings.labels,
        settings.restarts,
        settings.iterations,
    )
    control = Control(Budget(None, None))
    with (
        stop_on_signals(control),
        WhenNeeded(open_engine(engine, workers, address)) as place,
        progress_display(quiet=manner.quiet, machine=manner.machine) as display,
    ):
        control.listener = display
        summary = audit_many(
            updates,
            out,
            settings=settings,
            reading=reading,
            engine=place,
            control=control,
            total_seconds=total_seconds,
            again=again,
        )
        shown = pages(summary, show_records=manner.show_records) if reports else {}
        if not control.interrupted:
            _write_pages(shown, out, place, control, shows=manner.show_records, salt=salt)
    page = out / "summary.html"
    write_summary_page(summary, page, pages=shown)
    _tell(summary, out, manner)
    return run_exit_code(
        ((row.status, row.cause) for row in summary.rows),
        ended=bool(summary.ended) or control.interrupted,
        fail_on_leak=manner.fail_on_leak,
    )


def _write_pages(
    shown: Mapping[str, tuple[str, str]],
    out: Path,
    engine: Engine,
    control: Control,
    *,
    shows: bool,
    salt: str | None,
) -> None:
    """Write the pages that are not there; with a salt, which no page tells, all of them."""
    units = [
        Unit(
            name,
            write_update_page,
            {
                # Workers need not be in this folder.
                "result": os.path.abspath(out / result),
                "page": os.path.abspath(out / page),
                "name": name,
                "show_records": shows,
                "salt": salt,
            },
        )
        for name, (result, page) in shown.items()
        if salt is not None or not (out / page).is_file()
    ]
    listener, control.listener = control.listener, None
    for number, done in enumerate(engine.run(units, control), 1):
        if done.failure:
            raise InputError(f"--reports, {done.key}", done.failure, "a report")
        if listener is not None:
            listener(Progress(f"{number:,} of {count(len(units), 'report')}"))
    control.listener = listener


def _tell(summary: Summary, out: Path, manner: Manner) -> None:
    console = output(errors=manner.machine)
    if manner.machine:
        try:
            click.echo(json.dumps(summary.to_json(), indent=2, allow_nan=False))
        except BrokenPipeError:
            silence(sys.stdout)
    else:
        say(console, summary.sentence(), "bold red" if summary.leaks else "bold yellow")
    if not manner.quiet and not manner.machine:
        _print_leaks(console, summary, out)
        _print_totals(console, summary)
    _print_reasons(summary, out)
    if not manner.quiet:
        if summary.ended:
            say(console, f"Ended early: {summary.ended}. The same command goes on with it.")
        for name in ("summary.html", "summary.csv", "summary.json"):
            say(console, f"Written: {out / name}", "dim")


def _print_leaks(console: Console, summary: Summary, out: Path) -> None:
    """Name the updates of which most records were recovered, and say where the others are."""
    leaks = [row for row in summary.rows if row.leak_proven]
    worst = sorted(leaks, key=lambda row: -row.records_recovered)[:MAX_LEAKS]
    for row in worst:
        of_all = "" if row.batch_size is None else f" of {row.batch_size:,}"
        noun = "record" if row.records_recovered == 1 and not of_all else "records"
        known = f"{row.records_recovered:,}{of_all} {noun} recovered"
        say(console, f"Leak: {plain(row.name, 200)}: {known}", "red")
    if len(leaks) > len(worst):
        say(console, f"And {len(leaks) - len(worst):,} more, in {out / 'summary.html'}.")


def _print_totals(console: Console, summary: Summary) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim", overflow="fold")
    table.add_column(overflow="fold")
    statuses = dict.fromkeys(row.status for row in summary.rows)
    rows = [(status_words(status), f"{summary.count(status):,}") for status in statuses]
    recovered = sum(row.records_recovered for row in summary.rows)
    rows.append(("records certified", f"{recovered:,}"))
    if summary.reused:
        rows.append(("finished before", f"{summary.reused:,}"))
    rows.append(("time", duration(summary.seconds)))
    for words, value in rows:
        table.add_row(Text(words[:1].upper() + words[1:]), Text(value))
    console.print(table)


def _print_reasons(summary: Summary, out: Path) -> None:
    """Say on stderr what could not be audited: it is no part of any result."""
    console = output(errors=True)
    wrong = [row for row in summary.rows if row.status in ("unreadable", "failed")]
    for row in wrong[:MAX_REASONS]:
        say(console, f"Not audited: {plain(row.name, 200)}: {plain(row.cause, 400)}", "yellow")
    if len(wrong) > MAX_REASONS:
        rest = len(wrong) - MAX_REASONS
        say(console, f"And {rest:,} more; {out / 'summary.json'} says why.", "yellow")
