"""SPEAR, Figure 5: how wide and how deep the network is."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from gradaudit.budget import Budget, Control
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import HIDDEN_LAYERS, WIDTH, Client, attack, quality
from gradaudit.theory import expected_submatrices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-figure5"
TITLE = "Accuracy and submatrices, against the network's width and depth"
SOURCE = "SPEAR (arXiv 2403.03945), Figure 5, section 6.2"
DIFFERS = (
    "The paper has batches of 20; here they are smaller at the smaller scales. It prints curves, "
    "no numbers, and says of them that accuracy depends on neither, given m much larger than b, "
    "and that wider networks need fewer submatrices. Its widths and depths were not at hand: ours "
    "go around its default network (six layers, 200 wide). Networks of one seed and width share "
    "their first layer and batch, and with them the zeros that are searched, so that the depth "
    "changes nothing but the values beside them. Our sampler draws 256 submatrices at a "
    "time and solves for the last directions jointly, so that few submatrices are counted "
    "coarsely. A batch that was not complete in time counts as what was sampled, at least."
)
HEAD = ("layers", "m", "b", "batches", "exact", "submatrices (median)", "ours / Lemma 5.2")
LAYERS = HIDDEN_LAYERS + 1
WIDTHS, DEPTHS = (50, 100, 200, 400, 800), (2, 4, 6, 8, 10)
# Of one audit, by scale.
SECONDS = (10.0, 120.0, 3600.0)


def units(scale: Scale) -> list[dict[str, Any]]:
    """One audit each; the default network stands in both series once."""
    networks = [(LAYERS, width) for width in WIDTHS]
    networks += [(layers, WIDTH) for layers in DEPTHS if layers != LAYERS]
    return [
        {"layers": layers, "width": width, "batch_size": scale.pick(12, 14, 20), "seed": seed}
        for layers, width in networks
        for seed in scale.batches(4, 20, 100)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Sample until the batch is complete."""
    source = scale.source("CIFAR-10")
    model, update, truth = Client(
        source,
        unit["batch_size"],
        unit["seed"],
        width=unit["width"],
        hidden_layers=unit["layers"] - 1,
    ).observe()
    limited = control.fresh(Budget(seconds=scale.pick(*SECONDS)))
    result = attack(model, update, truth, "spear", seed=unit["seed"], control=limited)
    found = quality(result, truth)
    kept = ("exact", "recovered", "submatrices", "seconds")
    return [{**unit, "data": shown(source), **{column: found[column] for column in kept}}]


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """A line a network."""
    lines: list[Sequence[str]] = [HEAD]
    for (layers, width), own in _groups(rows).items():
        (size,) = {row["batch_size"] for row in own}
        exact = sum(bool(row["exact"]) for row in own)
        share = _middle(own) / expected_submatrices(size)
        counted = (f"{_middle(own):,.0f}", f"{share:.2f}")
        lines.append((str(layers), str(width), str(size), str(len(own)), str(exact), *counted))
    return lines


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Accuracy above, submatrices below; against the width on the left, the depth on the right."""
    panels = figure.subplots(2, 2, sharey="row", sharex="col")
    groups = _groups(rows)
    series = (
        (f"width m, {LAYERS} layers", {w: own for (d, w), own in groups.items() if d == LAYERS}),
        (f"layers, m = {WIDTH}", {d: own for (d, w), own in groups.items() if w == WIDTH}),
    )
    for (above, below), (label, found) in zip(panels.T, series, strict=True):
        values = list(found)
        shares = [100 * sum(bool(r["exact"]) for r in own) / len(own) for own in found.values()]
        above.plot(values, shares, "o-")
        above.set_ylim(0, 105)
        points = [(v, r["submatrices"] or 0) for v, own in found.items() for r in own]
        below.plot(*zip(*points, strict=True), ".", color="0.6", label="one batch")
        below.plot(values, [_middle(own) for own in found.values()], "o-", label="median")
        below.axhline(
            expected_submatrices(rows[0]["batch_size"]), color="k", lw=1, ls="--", label="Lemma 5.2"
        )
        below.set_yscale("log")
        below.set_xlabel(label)
        for axis in (above, below):
            axis.grid(alpha=0.2)
    below.set_xticks(values)
    panels[0, 0].set_xscale("log")
    widths = list(series[0][1])
    panels[1, 0].set_xticks(widths, [str(width) for width in widths])
    panels[1, 0].minorticks_off()
    panels[0, 0].set_ylabel("batches recovered (%)")
    panels[1, 0].set_ylabel("submatrices")
    panels[1, 0].legend(fontsize="small")


def _middle(rows: Sequence[Row]) -> float:
    return float(median(row["submatrices"] or 0 for row in rows))


def _groups(rows: Sequence[Row]) -> dict[tuple[int, int], list[Row]]:
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["layers"], row["width"])):
        groups.setdefault((row["layers"], row["width"]), []).append(row)
    return groups
