"""``gradaudit rerun``: does the audit say the same again?"""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradaudit.cli.exit_codes import ExitCode
from gradaudit.cli.verb import FILE, MODEL_WORDS, Verb, flag, limit, option
from gradaudit.errors import InputError

if TYPE_CHECKING:
    from gradaudit.cli.outputs import Outputs
    from gradaudit.rerunning import Rerun

EXAMPLES = (
    ("The update lies beside the result, or here", "gradaudit rerun audit/result.json"),
    (
        "It lies elsewhere, and the new result is to be kept",
        "gradaudit rerun result.json --update sent.pt --weights before.pt --out again",
    ),
)
_RECORDED = "recorded"
SCHEMA, SCHEMA_VERSION = "gradaudit.rerun", "1"


def _seconds(ctx: click.Context, param: click.Parameter, value: str) -> float | str | None:
    return value if value == _RECORDED else limit(float)(ctx, param, value)


@click.command(cls=Verb, examples=EXAMPLES, short_help="Repeat an audit and compare.")
@click.argument("result", type=FILE, metavar="RESULT.json")
@option(
    "--update",
    metavar="FILE",
    type=FILE,
    help="The file that was audited. By default it is found by name: a file that is called as the "
    "result says, beside RESULT.json or in the current folder, if its SHA-256 is the recorded one.",
)
@option("--weights", metavar="FILE", type=FILE, help="The weights before the step; found likewise.")
@option(
    "--model",
    metavar="SPEC",
    help=f"The network, where it is one of your own code: {MODEL_WORDS}.",
)
@option("--device", metavar="D", help="Such as cpu; by default, where the audit ran.")
@option(
    "--seconds",
    metavar="N",
    callback=_seconds,
    default=_RECORDED,
    show_default=True,
    help="Time budget, or none.",
)
@option(
    "--out",
    metavar="FOLDER",
    type=FILE,
    help="Write the new result.json, and the recovered records as result.safetensors.",
)
@flag(
    "--discard-records",
    help="Write no recovered records, as by default where RESULT.json has none.",
)
@flag("--json", "machine", help="Print comparison and new result as JSON, and nothing else.")
@flag("--quiet", "-q", help="Print the comparison's sentence alone, and no progress.")
def rerun(
    result: Path,
    *,
    update: Path | None,
    weights: Path | None,
    model: str | None,
    device: str | None,
    seconds: float | str | None,
    out: Path | None,
    discard_records: bool,
    machine: bool,
    quiet: bool,
) -> int:
    """Ask again what the audit was asked that wrote RESULT.json, and compare.

    The same files, settings, seed and number of threads. The result names its files without
    folders: they are found by name beside it or in the current folder, and used only if their
    SHA-256 is the recorded one. On one machine with the same versions, the results agree bit for
    bit unless the time ran out.
    """
    from gradaudit.cli.progress import progress_display
    from gradaudit.cli.search import new_control
    from gradaudit.rerunning import budget_of, request_of
    from gradaudit.rerunning import rerun as run_again
    from gradaudit.result import AuditResult

    then = AuditResult.load(result)
    # Who kept no records once is not given them by asking again.
    discarded = then.records is None and then.records_recovered > 0
    outputs = _outputs(out, keep_records=not discard_records and not discarded)
    inputs = {"RESULT.json": result, "its arrays": result.with_suffix(".safetensors")}
    outputs.check({**inputs, "--update": update, "--weights": weights})
    budget = budget_of(request_of(then, result))
    if not isinstance(seconds, str):
        budget = replace(budget, seconds=seconds)
    with (
        new_control(budget.seconds, budget.submatrices, budget.memory) as control,
        progress_display(quiet=quiet, machine=machine) as display,
    ):
        control.listener = display
        found = run_again(
            result, update=update, weights=weights, model=model, device=device, control=control
        )
    _tell(found, outputs, machine=machine, quiet=quiet)
    return _exit_code(found)


def _outputs(folder: Path | None, *, keep_records: bool) -> Outputs:
    from gradaudit.cli.outputs import Outputs

    if folder is not None and os.path.isfile(folder):
        raise InputError("--out", f"{str(folder)!r}, a file", "a folder")
    place = None if folder is None else folder / "result.json"
    return Outputs(result=place, keep_records=keep_records)


def _tell(found: Rerun, outputs: Outputs, *, machine: bool, quiet: bool) -> None:
    from gradaudit.cli.guard import silence
    from gradaudit.cli.terminal import output, say
    from gradaudit.report.text import plain

    written = outputs.write_result(found.result)
    if machine:
        try:
            click.echo(json.dumps(_plain(found), indent=2, allow_nan=False))
        except BrokenPipeError:
            silence(sys.stdout)
        return
    console = output()
    # Names of layers come from files of others.
    say(console, plain(found.repetition.statement(), 2000), "bold")
    if quiet:
        return
    for name, result in (("Then", found.before), ("Now", found.result)):
        say(console, f"{name}: {plain(result.summary(), 600)}")
    for path in written:
        say(console, f"Written: {path}", "dim")


def _plain(found: Rerun) -> dict[str, Any]:
    repetition = found.repetition
    largest = repetition.largest_difference
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "sameness": repetition.sameness.value,
        "statement": repetition.statement(),
        "compared_records": repetition.compared_records,
        "largest_difference": largest if largest is None or abs(largest) < float("inf") else None,
        "differences": list(repetition.differences),
        "circumstances": list(repetition.circumstances),
        "hurried": repetition.hurried,
        "result": found.result.to_json(),
    }


def _exit_code(found: Rerun) -> ExitCode:
    from gradaudit.result import Sameness

    sameness = found.repetition.sameness
    if sameness is Sameness.IDENTICAL:
        return ExitCode.DONE
    # Two searches that were cut short before they proved anything confirm nothing.
    empty = not found.result.records_recovered
    if found.repetition.hurried and (sameness is Sameness.DIFFERENT or empty):
        return ExitCode.UNFINISHED
    return ExitCode.SAME_VERDICT if sameness is Sameness.SAME_VERDICT else ExitCode.DIFFERENT
