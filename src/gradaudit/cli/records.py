"""Recovered records in words and numbers, for whoever asked to see them."""

from __future__ import annotations

from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor

from gradaudit.report.records import view_records
from gradaudit.report.text import number, plain
from gradaudit.result import AuditResult
from gradaudit.truth import Truth

# Numbers of a plain vector that are printed.
MAX_NUMBERS = 32


def record_blocks(
    result: AuditResult, truth: Truth | None = None
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Blocks to print, each a title and rows of a name and a value.

    Rows of a table are in their original columns and units; a vector is its first numbers; an
    image cannot be printed, and the one block says where to see it.

    Args:
        result: What an audit found.
        truth: Originals to put beside the records.

    Example:
        >>> from gradaudit.evidence import Status
        >>> list(record_blocks(AuditResult(Status.NOT_APPLICABLE, "No layer.", "None.")))
        [('No records to show.', [])]
    """
    proven = None if result.records_are_features else result.records
    groups = [proven, result.approximate_records]
    rows = [row for group in groups if group is not None for row in group]
    if not rows:
        yield "No records to show.", []
        return
    known = result.preprocessing
    if known and known.image_shape and known.features == len(rows[0]):
        yield (
            "The records are images: see them with --report FILE --show-records, "
            "or with 'gradaudit report'.",
            [],
        )
        return
    view = view_records(result, truth=truth, show_records=True, salt=None)
    assert view is not None  # noqa: S101 - there are records
    for card in (*view.certified, *view.approximate, *view.uncertified):
        state = "certified" if card.certified else f"not certified: {card.reason}"
        values = [
            (
                row.name,
                f"{row.recovered} (original: {row.original})" if row.original else row.recovered,
            )
            for row in card.rows
        ]
        if view.kind == "vectors":
            values = [("Values", _numbers(rows[card.number - 1])), *values]
        facts = [(name, value) for name, value in card.facts if name in ("Class", "In batch")]
        notes = [("Note", note) for note in card.notes]
        yield f"Record {card.number} ({plain(state, 300)})", [*values, *facts, *notes]
    if view.shown < view.total:
        yield f"The other {view.total - view.shown:,} records are in the result's arrays.", []


def _numbers(record: Float[Tensor, " n"]) -> str:
    values = record.tolist()
    text = ", ".join(number(value, 6) for value in values[:MAX_NUMBERS])
    return text if len(values) <= MAX_NUMBERS else f"{text}, ... ({len(values):,} in all)"
