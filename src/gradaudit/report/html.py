"""An audit's result as one HTML file that needs nothing else: no script, no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gradaudit.report.environment import environment
from gradaudit.report.figures import Picture, sparsity_picture, spectrum_picture
from gradaudit.report.records import view_records
from gradaudit.report.text import count, duration, number, plain
from gradaudit.report.wording import KINDS, OUTCOMES, ROLES, layer_of, limits, verdict
from gradaudit.result import AuditResult
from gradaudit.tensorfile import replacing
from gradaudit.truth import Truth
from gradaudit.version import __version__

# Rows of evidence and of layers that a person still reads; the JSON has all of them.
MAX_ROWS = 100


def render_html(
    result: AuditResult,
    *,
    truth: Truth | None = None,
    show_records: bool = False,
    title: str | None = None,
    salt: str | None = None,
) -> str:
    """Render a result as a self-contained HTML5 page.

    The page holds no script and no address outside itself, and forbids both by its own content
    security policy. Whatever comes from the update (names, labels, reasons) is shown as text.

    Recovered records are personal data. Unless they are asked for, an image is averaged to at most
    four by four colour cells before it is written into the page, other values and the classes are
    left out, and the originals are treated alike. To compare two reports nevertheless, each
    record has a fingerprint. Its key is the update's digest, which suffices for images; a row of a
    table can be guessed, and is fingerprinted only under a secret salt.

    Args:
        result: What an audit found.
        truth: The originals of a simulated client, to put beside the recovered records.
        show_records: True shows the records, the originals and the classes.
        title: The page's heading.
        salt: A secret that reports to be compared with each other share.

    Returns:
        The page; the same arguments give the same text.

    Raises:
        InputError: The truth is of another batch.
        MissingExtraError: matplotlib or pillow is needed and not installed.

    Example:
        >>> from gradaudit.evidence import Status
        >>> result = AuditResult(Status.NOT_APPLICABLE, "No linear layer.", "Try another attack.")
        >>> page = render_html(result, title="Round <1>")
        >>> "<h1>Round &lt;1&gt;</h1>" in page, "<script" in page
        (True, False)
    """
    search = result.search
    pictures = _pictures(result)
    return (
        environment()
        .get_template("report.html")
        .render(
            title=title or "Audit of a federated-learning update",
            result=result,
            verdict=verdict(result),
            facts=_facts(result),
            records=view_records(result, truth=truth, show_records=show_records, salt=salt),
            spectrum_picture=pictures[0],
            sparsity_picture=pictures[1],
            kind=KINDS.get(result.certificate.kind, result.certificate.kind),
            outcomes=OUTCOMES,
            roles=ROLES,
            limits=limits(result),
            max_rows=MAX_ROWS,
            seconds=[(phase, duration(time)) for phase, time in search.seconds.items()],
            counters=[(name, number(value)) for name, value in search.counters.items()],
            version=__version__,
        )
    )


def write_report(
    result: AuditResult,
    path: str | Path,
    *,
    truth: Truth | None = None,
    show_records: bool = False,
    title: str | None = None,
    salt: str | None = None,
) -> None:
    """Write `render_html`'s page to a file, atomically.

    Args:
        result: What an audit found.
        path: The file to write or replace.
        truth: As `render_html` takes it.
        show_records: As `render_html` takes it.
        title: As `render_html` takes it.
        salt: As `render_html` takes it.

    Raises:
        InputError: The truth is of another batch, or the path cannot be written to.
        MissingExtraError: matplotlib or pillow is needed and not installed.

    Example:
        >>> import tempfile
        >>> from gradaudit.evidence import Status
        >>> result = AuditResult(Status.NOT_APPLICABLE, "No linear layer.", "Try another attack.")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report(result, f"{folder}/report.html")
        ...     Path(f"{folder}/report.html").read_text(encoding="utf-8")[:15]
        '<!doctype html>'
    """
    page = render_html(result, truth=truth, show_records=show_records, title=title, salt=salt)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _pictures(result: AuditResult) -> tuple[Picture | None, Picture | None]:
    spectrum = None if result.spectrum is None else spectrum_picture(result.spectrum)
    gradients = result.activation_gradients
    if gradients is None or gradients.ndim != 2:
        return spectrum, None
    array = gradients.detach().cpu().double().numpy()
    return spectrum, sparsity_picture(array, _drawn_as_zero(result.search.observed_dtype))


def _drawn_as_zero(observed_dtype: str) -> float:
    """Relative size of an entry that the observed number type cannot tell from zero."""
    name = observed_dtype.removeprefix("torch.")
    # A thousand roundings leave room for the sums behind an entry; this only shades a picture.
    return {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}.get(name, 1e-9)


def _approximate(result: AuditResult) -> list[tuple[str, Any]]:
    known = len(result.approximate_evidence)
    return [("Known approximately", count(known, "record"))] if known else []


def _facts(result: AuditResult) -> list[tuple[str, Any]]:
    size = "unknown" if result.batch_size is None else count(result.batch_size, "distinct record")
    facts = [
        ("Batch", size),
        ("Recovered", f"{result.records_recovered:,} certified"),
        *_approximate(result),
        ("Layer", layer_of(result)),
        # "halfspace+spear" is too long for its column, and would be broken within a word.
        ("Attack", re.sub(r"\+(?=\w)", " + ", plain(result.search.attack, 40))),
        ("Computing time", duration(result.search.elapsed_seconds)),
    ]
    if result.created:
        # ISO 8601: a person wants the day and the minute.
        facts.append(("Date", plain(result.created[:16].replace("T", " ") + " UTC", 40)))
    return facts
