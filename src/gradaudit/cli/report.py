"""``gradaudit report``: a result as a page to read and to pass on."""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from pathlib import Path

import click

from gradaudit.cli.verb import FILE, Verb, flag, option, salt_option, show_option
from gradaudit.errors import InputError

EXAMPLES = (
    ("A page to pass on; records are redacted", "gradaudit report audit/result.json"),
    (
        "For the auditor alone, originals beside the records",
        "gradaudit report audit/result.json --truth truth.safetensors --show-records "
        "--out private.html --grid private.png",
    ),
)


@click.command(cls=Verb, examples=EXAMPLES, short_help="Write a result as a page to read.")
@click.argument("result", type=FILE, metavar="RESULT.json")
@option(
    "--out",
    metavar="FILE.html",
    type=FILE,
    default="report.html",
    show_default=True,
    help="The page, one file that needs no network.",
)
@option("--truth", metavar="FILE", type=FILE, help="Originals of a simulated client.")
@show_option
@salt_option
@option(
    "--grid",
    metavar="FILE.png",
    type=FILE,
    help="Write recovered images, not redacted, as one picture; needs --show-records.",
)
@flag("--quiet", "-q", help="Print nothing.")
def report(
    result: Path,
    *,
    out: Path,
    truth: Path | None,
    show_records: bool,
    salt: str | None,
    grid: Path | None,
    quiet: bool,
) -> None:
    """Write a report of the result in the file RESULT.json, as 'gradaudit audit' wrote it."""
    from gradaudit.cli.outputs import check_places
    from gradaudit.cli.terminal import output, say
    from gradaudit.report import record_grid, write_report
    from gradaudit.result import AuditResult
    from gradaudit.truth import Truth

    if grid is not None and not show_records:
        raise InputError("--grid", "no --show-records", "it beside, as the grid shows the records")
    arrays = result.with_suffix(".safetensors")
    check_places(
        {"--out": out, "--grid": grid},
        {"RESULT.json": result, "the result's arrays": arrays, "--truth": truth},
    )
    found = AuditResult.load(result)
    originals = None if truth is None else Truth.load(truth)
    if grid is not None:
        if found.records is None or found.preprocessing is None:
            missing = "no records" if found.records is None else "records without an image shape"
            raise InputError(
                str(result), missing, "recovered images", "leave out --grid, or audit again with "
                "--out and --input-shape",
            )  # fmt: skip
        record_grid(found.records, found.preprocessing, grid, truth=originals)
    write_report(found, out, truth=originals, show_records=show_records, salt=salt)
    if not quiet:
        for path in filter(None, (out, grid)):
            say(output(), f"Written: {path}", "dim")
