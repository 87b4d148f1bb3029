"""A rank analysis in words: a table, and sentences that promise nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gradaudit.rank.rows import LayerRow

NO_PROMISE = (
    "A deficit protects nothing by itself: equations of other layers remain, which are nonlinear "
    "and which an optimisation attack uses."
)
_HEAD = ("layer", "unknowns", "equations", "naive", "exact", "deficit", "virtual", "RA index")


def table(rows: Sequence[LayerRow]) -> str:
    """The rows as text, columns aligned; a star marks an exact index that is a bound from above.

    Args:
        rows: From the input to the output.
    """
    lines = columns([_HEAD, *(_cells(row) for row in rows)], left={0})
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


def where_open(rows: Sequence[LayerRow], most: int = 3) -> str:
    """Layers that leave something open, in the order of the recursion, and how much.

    Args:
        rows: From the input to the output.
        most: Layers to name.
    """
    losses = [row for row in reversed(rows) if row.deficit]
    named = ", ".join(f"{row.name} ({row.deficit:,})" for row in losses[:most])
    return named + (", ..." if len(losses) > most else "")


def _cells(row: LayerRow) -> tuple[str, ...]:
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
    losses = [row for row in reversed(rows) if row.deficit]
    bounds = [row for row in rows if row.upper_bound]
    sentences = []
    if losses:
        first = losses[0]
        sentences.append(
            f"The recursion loses data first at {first.name}: its equations leave "
            f"{first.deficit:,} of {first.unknowns:,} dimensions of its input open."
        )
        if len(losses) > 1:
            others = where_open([row for row in rows if row is not first])
            sentences.append(f"Nearer the input, further ones are open: {others}.")
        sentences.append(NO_PROMISE)
    else:
        sentences.append(
            "At every layer the linear equations determine the input: with invertible activations "
            "a single record's gradient gives the record to R-GAP's recursion."
        )
    if bounds:
        names = ", ".join(row.name for row in bounds[:3]) + (", ..." if len(bounds) > 3 else "")
        sentences.append(
            f"For {names} the rank is a bound from above, so that the recursion may lose more."
        )
    if any(row.measured for row in rows):
        counted = ", ".join(row.name for row in rows if not row.measured) or "no layer"
        sentences.append(f"The ranks are counted for {counted}, and measured for the other layers.")
    sentences += [f"{row.name}: {row.note}." for row in losses if row.note]
    return " ".join(sentences)
