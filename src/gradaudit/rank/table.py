"""A rank analysis in words: a table, and sentences that promise nothing."""

from __future__ import annotations

from collections.abc import Sequence

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
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([lines[0], "-" * sum(widths) + "-" * 2 * (len(widths) - 1), *lines[1:]])


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
            others = ", ".join(f"{row.name} ({row.deficit:,})" for row in losses[1:])
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
    sentences += [f"{row.name}: {row.note}." for row in losses if row.note]
    return " ".join(sentences)
