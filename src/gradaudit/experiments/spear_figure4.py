"""SPEAR, Figure 4: how many submatrices it takes, against the batch size."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from gradaudit.budget import Control
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import Client, attack, quality
from gradaudit.theory import expected_submatrices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-figure4"
TITLE = "Submatrices that are needed, against the batch size"
SOURCE = "SPEAR (arXiv 2403.03945), Figure 4, Lemma 5.2"
DIFFERS = (
    "Our sampler draws 256 submatrices at a time until the batch is complete, and solves for the "
    "last directions jointly, where the lemma waits for each. Batches that are not complete in "
    "time count as what was sampled, at least. The paper goes to b = 24."
)
HEAD = ("b", "m", "batches", "exact", "submatrices (median)", "Lemma 5.2", "ours / lemma")
# The second is open and larger, so that it does not hide the first.
WIDTHS: dict[int, dict[str, Any]] = {
    200: {"marker": "o"},
    2000: {"marker": "s", "ms": 11, "mfc": "none"},
}


def units(scale: Scale) -> list[dict[str, Any]]:
    """One audit each."""
    sizes = scale.pick((4, 6, 8, 10, 12), (4, 6, 8, 10, 12, 14, 16), (8, 10, 12, 14, 16, 20, 24))
    return [
        {"width": width, "batch_size": size, "seed": seed}
        for width in WIDTHS
        for size in sizes
        for seed in scale.batches(2, 10, 100)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Sample until the batch is complete."""
    source = scale.source("CIFAR-10")
    client = Client(source, unit["batch_size"], unit["seed"], width=unit["width"])
    model, update, truth = client.observe()
    result = attack(model, update, truth, "spear", seed=unit["seed"], control=control)
    found = quality(result, truth)
    kept = ("exact", "recovered", "submatrices", "seconds")
    return [{**unit, "data": shown(source), **{column: found[column] for column in kept}}]


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """Ours beside the lemma."""
    lines: list[Sequence[str]] = [HEAD]
    for (width, size), own in _groups(rows).items():
        middle, expected = _middle(own), expected_submatrices(size)
        exact = sum(bool(row["exact"]) for row in own)
        share = f"{middle / expected:.2f}"
        counted = (f"{middle:,.0f}", f"{expected:,.0f}", share)
        lines.append((str(size), str(width), str(len(own)), str(exact), *counted))
    return lines


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Submatrices against the batch size, and the lemma."""
    axis = figure.subplots()
    groups = _groups(rows)
    for width, style in WIDTHS.items():
        sizes = [size for own, size in groups if own == width]
        counts = [_middle(groups[width, size]) for size in sizes]
        axis.plot(sizes, counts, ls="none", label=f"ours, m = {width}", **style)
    sizes = sorted({size for _, size in groups})
    lemma = [expected_submatrices(size) for size in sizes]
    axis.plot(sizes, lemma, "k-", label="Lemma 5.2")
    axis.set(yscale="log", xlabel="batch size b", ylabel="submatrices")
    axis.set_xticks(sizes)
    axis.grid(alpha=0.2)
    axis.legend()


def _middle(rows: Sequence[Row]) -> float:
    return float(median(row["submatrices"] or 0 for row in rows))


def _groups(rows: Sequence[Row]) -> dict[tuple[int, int], list[Row]]:
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["width"], row["batch_size"])):
        groups.setdefault((row["width"], row["batch_size"]), []).append(row)
    return groups
