"""What SPEAR++'s tables share: settings, lines of paper and ours, and their figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gradaudit.experiments.experiment import Row
from gradaudit.experiments.spear_client import cell, mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Variant, batch size and width: what is printed there, PSNR in dB and accuracy.
Printed = Mapping[tuple[str, int, int], tuple[float, float]]
Key = tuple[str, int, int]

SMALL = ((20, 200), (65, 1000))
LARGE = (*SMALL, (100, 4000), (150, 4000))
WHOLE = (*LARGE, (210, 4000))
COLOURS, MARKERS = ("#0072B2", "#D55E00", "#009E73"), "os^"


def grouped(rows: Sequence[Row]) -> dict[Key, list[Row]]:
    """Rows by variant, batch size and width, in the order of the batch sizes."""
    groups: dict[Key, list[Row]] = {}
    for row in sorted(rows, key=lambda row: int(row["batch_size"])):
        groups.setdefault(_key(row), []).append(row)
    return groups


def _key(row: Row) -> Key:
    return str(row["variant"]), int(row["batch_size"]), int(row["width"])


def compared(
    rows: Sequence[Row], printed: Printed, head: str, own: Mapping[str, str]
) -> list[Sequence[str]]:
    """The paper's PSNR and accuracy beside ours.

    Args:
        rows: With ``psnr``, and the columns that are asked for.
        printed: Of the paper.
        head: What the variants are.
        own: Columns whose means over batches are shown as percentages, with their heads.
    """
    lines: list[Sequence[str]] = [
        (
            "b",
            "m",
            head,
            "paper: PSNR",
            "accuracy",
            "ours: batches",
            "reconstructed",
            "PSNR",
            *own.values(),
        )
    ]
    groups = grouped(rows)
    for key in sorted({*groups, *printed}, key=lambda key: (key[1], key[2], key[0])):
        variant, batch_size, width = key
        theirs = printed.get(key)
        ours = groups.get(key, [])
        lines.append(
            (
                str(batch_size),
                str(width),
                variant,
                f"{theirs[0]:.2f}" if theirs else "not known",
                f"{theirs[1]:.0%}" if theirs else "not known",
                str(len(ours)) if ours else "not run",
                str(sum(row["psnr"] is not None for row in ours)) if ours else "",
                cell(mean(ours, "psnr"), ".1f") if ours else "",
                *(f"{mean(ours, column) or 0.0:.0%}" if ours else "" for column in own),
            )
        )
    return lines


def draw_psnr(rows: Sequence[Row], printed: Printed, figure: Figure) -> None:
    """PSNR of every batch by setting, a bar where the paper's mean is.

    A batch of which nothing was reconstructed is at zero.
    """
    axis = figure.subplots()
    groups = grouped(rows)
    keys = sorted({*groups, *printed}, key=lambda key: (key[1], key[2], key[0]))
    places = list(dict.fromkeys((size, width) for _, size, width in keys))
    variants = list(dict.fromkeys(variant for variant, _, _ in keys))
    for number, variant in enumerate(variants):
        colour = COLOURS[number % len(COLOURS)]
        shift = 0.22 * (number - (len(variants) - 1) / 2)
        points = [
            (places.index((size, width)) + shift, row["psnr"] or 0.0)
            for (name, size, width), own in groups.items()
            for row in own
            if name == variant
        ]
        marker = MARKERS[number % len(MARKERS)]
        axis.plot(
            [x for x, _ in points], [y for _, y in points], marker, color=colour, label=variant
        )
        bars = [
            (places.index((size, width)) + shift, psnr)
            for (name, size, width), (psnr, _) in printed.items()
            if name == variant
        ]
        axis.plot(
            [x for x, _ in bars],
            [y for _, y in bars],
            "_",
            color=colour,
            markersize=20,
            markeredgewidth=2.5,
        )
    axis.plot([], [], "_", color="grey", markersize=20, markeredgewidth=2.5, label="paper's mean")
    axis.set_xticks(range(len(places)), [f"b = {size}\nm = {width}" for size, width in places])
    axis.set_xlim(-0.5, len(places) - 0.5)
    axis.set_ylim(bottom=-5)
    axis.set_ylabel("PSNR of a batch (dB); 0: nothing reconstructed")
    axis.grid(axis="y", alpha=0.3)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=len(variants) + 1)
