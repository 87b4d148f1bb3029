"""The searches on the same updates: directions found against time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradaudit.auditing import audit
from gradaudit.budget import Budget, Control, Progress
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import Client

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "side-by-side"
TITLE = "Searches side by side: directions found against time"
SOURCE = "gradaudit; SPEAR (arXiv 2403.03945) and SPEAR++ (arXiv 2510.24200)"
DIFFERS = (
    "Each line is one search alone (`attack=...`) on the same updates. A direction counts as "
    "found when the shared pool has verified it, whether or not the batch is ever completed; "
    "those that are solved for once nearly all others are there count too. `spear++` has whitened "
    "rows and starts beside what is known, both ours. Seconds are by the clock."
)
ATTACKS = {"halfspace": "-", "spear++": "--", "spear": ":"}
COLOURS = dict(zip(ATTACKS, ("#0072B2", "#D55E00", "#009E73"), strict=True))
HEAD = ("b", "m", "search", "batches", "directions found", "certified", "seconds")
# Of one audit, by scale.
SECONDS = (15.0, 120.0, 1800.0)
# Where the logarithmic axis begins.
FIRST_SECOND = 0.05


def units(scale: Scale) -> list[dict[str, Any]]:
    """One audit each."""
    shapes = scale.pick(
        ((20, 200), (65, 1000)),
        ((20, 200), (65, 1000), (100, 4000)),
        ((20, 200), (65, 1000), (100, 4000), (150, 4000)),
    )
    return [
        {"batch_size": batch_size, "width": width, "attack": name, "seed": seed}
        for batch_size, width in shapes
        for name in ATTACKS
        for seed in scale.batches(1, 3, 10)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Search one batch; a row whenever more directions are known, and one at the end."""
    source = scale.source("CIFAR-10")
    model, update, _ = Client(
        source, unit["batch_size"], unit["seed"], width=unit["width"]
    ).observe()
    # Without success the audit goes on to inner layers, which are another matter.
    layer = next(iter(update.linear_layers())).name
    curve: list[tuple[float, int]] = [(0.0, 0)]
    limited = control.fresh(Budget(seconds=scale.pick(*SECONDS)))

    def listen(progress: Progress) -> None:
        if progress.phase.startswith(f"layer {layer}:") and progress.found > curve[-1][1]:
            curve.append((limited.elapsed_seconds, progress.found))
        if control.listener is not None:
            control.listener(progress)

    limited.listener = listen
    result = audit(
        update, model=model, layer=layer, attack=unit["attack"], seed=unit["seed"], control=limited
    )
    # Those that complete a batch are not reported, but counted.
    last = min(int(result.search.counters["candidate_directions"]), unit["batch_size"])
    curve.append((limited.elapsed_seconds, max(last, curve[-1][1])))
    about = {"certified": result.records_recovered, "data": shown(source)}
    return [{**unit, **about, "at_second": round(s, 3), "directions": n} for s, n in curve]


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """What every search found in the end, in the median over batches."""
    lines: list[Sequence[str]] = [HEAD]
    for (batch_size, width), name in _searches(rows):
        last = [curve[-1] for curve in _curves(rows, batch_size, width, name)]
        lines.append(
            (
                str(batch_size),
                str(width),
                name,
                str(len(last)),
                f"{statistics.median(row['directions'] for row in last):g}",
                f"{statistics.median(row['certified'] for row in last):g}",
                f"{statistics.median(row['at_second'] for row in last):.2f}",
            )
        )
    return lines


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """A panel for each batch size and width, a curve for each search and batch."""
    shapes = list(dict.fromkeys(shape for shape, _ in _searches(rows)))
    axes = dict(zip(shapes, figure.subplots(1, len(shapes), squeeze=False)[0], strict=True))
    for shape, name in _searches(rows):
        for number, curve in enumerate(_curves(rows, *shape, name)):
            axes[shape].step(
                [max(row["at_second"], FIRST_SECOND) for row in curve],
                [row["directions"] for row in curve],
                ATTACKS[name],
                where="post",
                color=COLOURS[name],
                label=None if number else name,
            )
    for (batch_size, width), axis in axes.items():
        axis.axhline(batch_size, color="grey", linewidth=0.8)
        axis.annotate(
            "all ",
            (1, batch_size),
            (0, 2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
        )
        axis.set_title(f"b = {batch_size}, m = {width}")
        axis.set_xscale("log")
        axis.set_xlabel("seconds")
        axis.set_ylabel("directions verified")
        # What found nothing lies on zero, which is not to be the edge.
        axis.set_ylim(-0.03 * batch_size, 1.06 * batch_size)
        axis.yaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    figure.set_size_inches(4.4 * len(shapes), 4.2)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


def _searches(rows: Sequence[Row]) -> list[tuple[tuple[int, int], str]]:
    keys = [((row["batch_size"], row["width"]), row["attack"]) for row in rows]
    return list(dict.fromkeys(keys))


def _curves(rows: Sequence[Row], batch_size: int, width: int, name: str) -> list[list[Row]]:
    """The rows of each batch."""
    curves: dict[int, list[Row]] = {}
    for row in rows:
        if (row["batch_size"], row["width"], row["attack"]) == (batch_size, width, name):
            curves.setdefault(row["seed"], []).append(row)
    return list(curves.values())
