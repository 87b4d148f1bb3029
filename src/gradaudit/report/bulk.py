"""Many results as one HTML page, and a page of each; made from the rows and results alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from gradaudit.bulk.folder import REDACTED, SHOWN
from gradaudit.bulk.row import FAILED, MEANINGS, NOT_AN_UPDATE, NOT_DONE, UNREADABLE, Row
from gradaudit.bulk.summary import Summary
from gradaudit.evidence import Status
from gradaudit.report.environment import environment
from gradaudit.report.html import write_report
from gradaudit.report.text import duration, number, plain
from gradaudit.report.wording import OUTCOMES
from gradaudit.result import AuditResult
from gradaudit.tensorfile import replacing
from gradaudit.version import __version__

_WORDS = {
    UNREADABLE: "not readable",
    NOT_AN_UPDATE: "not an update",
    FAILED: "failed",
    NOT_DONE: "not audited yet",
}


def status_words(status: str) -> str:
    """A row's status for a person.

    Example:
        >>> status_words("recovered"), status_words("unreadable")
        ('all records recovered', 'not readable')
    """
    return _WORDS[status] if status in MEANINGS else OUTCOMES[Status(status)]


def pages(summary: Summary, *, show_records: bool) -> dict[str, tuple[str, str]]:
    """Where each result is and where its page belongs, by the update's name, from the folder.

    Pages that show records have names of their own, so that none is taken for the other.

    Args:
        summary: Of the run.
        show_records: Whether the pages show the records.
    """
    suffix = SHOWN if show_records else REDACTED
    return {
        row.name: (row.result, f"{row.result.removesuffix('.json')}{suffix}")
        for row in summary.rows
        if row.result
    }


def write_update_page(
    result: str, page: str, name: str, show_records: bool, salt: str | None
) -> None:
    """Write the page of one result; for a unit of work.

    Args:
        result: The result's JSON.
        page: The page.
        name: The update's.
        show_records: Whether it shows the records.
        salt: Key of its fingerprints.

    Raises:
        InputError: The result cannot be read, or the page not be written.
        MissingExtraError: matplotlib or pillow is needed and not installed.
    """
    write_report(
        AuditResult.load(result),
        page,
        title=f"Audit of {plain(name)}",
        show_records=show_records,
        salt=salt,
    )


def render_summary(
    summary: Summary,
    *,
    pages: Mapping[str, tuple[str, str]] | None = None,
    title: str | None = None,
) -> str:
    """Render a summary as an HTML5 page without script, and without any record.

    Args:
        summary: Of a run.
        pages: From `pages`, where there are pages to link to.
        title: The page's heading.

    Returns:
        The page; the same rows give the same text.

    Example:
        >>> page = render_summary(Summary((Row("<b>", "unreadable", "An empty file."),)))
        >>> "&lt;b&gt;" in page, "<script" in page
        (True, False)
    """
    linked = pages or {}
    return (
        environment()
        .get_template("bulk.html")
        .render(
            title=title or "Audit of many federated-learning updates",
            summary=summary,
            tone="leak" if summary.leaks else "open",
            facts=_facts(summary),
            rows=[_row(row, linked.get(row.name, ("", ""))[1]) for row in summary.rows],
            settings=_settings(summary),
            version=__version__,
        )
    )


def write_summary_page(
    summary: Summary,
    path: str | Path,
    *,
    pages: Mapping[str, tuple[str, str]] | None = None,
    title: str | None = None,
) -> None:
    """Write `render_summary`'s page to a file, atomically.

    Args:
        summary: Of a run.
        path: The file, in the folder of the run, as links in the page begin there.
        pages: As `render_summary` takes it.
        title: As `render_summary` takes it.

    Raises:
        InputError: The path cannot be written to.
    """
    page = render_summary(summary, pages=pages, title=title)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _facts(summary: Summary) -> list[tuple[str, str]]:
    search = sum(row.seconds for row in summary.rows)
    return [
        ("Updates", number(summary.updates)),
        ("Audited", number(summary.audited)),
        ("Proven leaks", number(summary.leaks)),
        ("Records certified", number(sum(row.records_recovered for row in summary.rows))),
        ("Not readable", number(summary.count(UNREADABLE) + summary.count(FAILED))),
        ("Not an update", number(summary.count(NOT_AN_UPDATE))),
        ("Computing time", duration(search)),
    ]


def _row(row: Row, page: str) -> dict[str, Any]:
    size = "unknown" if row.batch_size is None else f"{row.batch_size:,}"
    return {
        "name": row.name,
        "leak": row.leak_proven,
        "status": status_words(row.status),
        "records": f"{row.records_recovered:,} of {size}" if row.audited else "",
        "layer": ("all together" if row.layer is None else row.layer or "(unnamed)")
        if row.audited and row.attack != "none"
        else "",
        "attack": re.sub(r"\+(?=\w)", " + ", row.attack) if row.audited else "",
        "seconds": number(round(row.seconds, 2)) if row.audited else "",
        "cause": row.cause,
        "result": _link(row.result),
        "page": _link(page),
    }


def _link(path: str) -> str:
    """A relative address; a colon in the first part would be taken for a scheme."""
    return f"./{quote(str(PurePosixPath(path)), errors='surrogateescape')}" if path else ""


def _settings(summary: Summary) -> list[tuple[str, str]]:
    """What was asked for, by the names of the library; what is not said is left out."""
    return [
        (name.replace("_", " ").capitalize(), str(value))
        for name, value in summary.settings.items()
        if value is not None
    ]
