"""A rank analysis in words: a table, and sentences that promise nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gradaudit.rank.rows import LayerRow

NO_PROMISE = (
    "A deficit protects nothing by itself: equations of other layers remain, which are nonlinear "
    "and which an optimisation attack uses."
)
# Layers that a sentence names.
MOST = 3
HEAD = ("layer", "unknowns", "equations", "naive", "exact", "deficit", "virtual", "RA index")


def table(rows: Sequence[LayerRow]) -> str:
    """The rows as text, columns aligned; a star marks an exact index that is a bound from above.

    Args:
        rows: From the input to the output.
    """
    lines = columns([HEAD, *(cells(row) for row in rows)], left={0})
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def columns(lines: Sequence[Sequence[str]], left: Collection[int]) -> list[str]:
    """Lines of cells with their columns aligned.

    Args:
        lines: Of equally many cells.
        left: The columns that begin, rather than end, in line.

    Example:
        >>> columns([("a", "10"), ("bc", "2")], left={0})
        ['a   10', 'bc   2']
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def where_open(rows: Sequence[LayerRow]) -> str:
    """Layers that leave something open, in the order of the recursion, and how much.

    Args:
        rows: From the input to the output.
    """
    losses = [row for row in reversed(rows) if row.deficit]
    named = ", ".join(f"{row.name} ({row.deficit:,})" for row in losses[:MOST])
    return named + (", ..." if len(losses) > MOST else "")


def cells(row: LayerRow) -> tuple[str, ...]:
    """A row's cells, under `HEAD`.

    Args:
        row: Of a layer.
    """
    exact = f"{row.exact_index:+,}{'*' if row.upper_bound else ''}"
    return (
        row.name,
        f"{row.unknowns:,}",
        f"{row.gradient_constraints + row.weight_constraints:,}",
        f"{row.naive_index:+,}",
        exact,
        f"{row.deficit:,}" if row.deficit else "-",
        f"{row.virtual_constraints:+,}",
        f"{row.rank_analysis_index:+,}",
    )


def summary(rows: Sequence[LayerRow]) -> str:
    """What the rows say, in sentences.

    Args:
        rows: From the input to the output.
    """
    sentences = [*_losses(rows), *_barriers(rows)]
    bounds = [row.name for row in rows if row.upper_bound]
    if bounds:
        names = ", ".join(bounds[:MOST]) + (", ..." if len(bounds) > MOST else "")
        sentences.append(
            f"For {names} the rank is a bound from above, so that the recursion may lose more."
        )
    if any(row.measured for row in rows):
        counted = ", ".join(row.name for row in rows if not row.measured) or "no layer"
        sentences.append(f"The ranks are counted for {counted}, and measured for the other layers.")
    notes = {row.note: row.name for row in rows if row.deficit and row.note and not row.lossy}
    sentences += [f"{name}: {note}." for note, name in notes.items()]
    return " ".join(sentences)


def _losses(rows: Sequence[LayerRow]) -> list[str]:
    losses = [row for row in reversed(rows) if row.deficit]
    if not losses:
        said = "At every layer the linear equations determine the input"
        if any(row.lossy for row in rows):
            return [f"{said}."]
        return [
            f"{said}: with invertible activations a single record's gradient gives the record to "
            "R-GAP's recursion."
        ]
    first = losses[0]
    sentences = [
        f"The recursion loses data first at {first.name}: its equations leave {first.deficit:,} of "
        f"{first.unknowns:,} dimensions of its input open."
    ]
    if len(losses) > 1:
        others = where_open([row for row in rows if row is not first])
        sentences.append(f"Nearer the input, further ones are open: {others}.")
    return [*sentences, NO_PROMISE]


def _barriers(rows: Sequence[LayerRow]) -> list[str]:
    """What stops the recursion, however many equations there are: once for each reason."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row.lossy:
            by_reason.setdefault(row.note, []).append(row.name)
    return [
        f"R-GAP's recursion cannot pass {', '.join(names)}: {reason}."
        for reason, names in by_reason.items()
    ]
