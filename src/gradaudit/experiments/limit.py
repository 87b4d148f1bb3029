"""The largest batch that is recovered, against the width of the layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradaudit.budget import Budget, Control
from gradaudit.errors import require
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import Client, attack

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "limit"
TITLE = "The largest batch recovered, against the width"
SOURCE = "gradaudit; settings of SPEAR (arXiv 2403.03945) and SPEAR++ (arXiv 2510.24200)"
DIFFERS = (
    "Attack `auto`, six layers. A ladder of batch sizes rises from m / 8 by a quarter until a "
    "batch is not recovered whole within the time limit (see the rows); more time may recover "
    "more, and another seed less. From m = 2 b down a true direction has no more zeros than any "
    "direction can be given. SPEAR++ reports accuracies by its own criterion: 95 to 100 % at "
    "(b, m) = (20, 200), (65, 1000), (150, 4000), and 7 to 77 % at (210, 4000)."
)
HEAD = ("m", "time limit of a batch (s)", "largest b recovered", "b / m", "smallest not recovered")
# The ladder begins at this part of m, and rises by this factor.
FIRST, STEP = 1 / 8, 1.25
# Of one audit, by scale.
SECONDS = (15.0, 120.0, 3600.0)
# Width and batch size that SPEAR++ reports with nearly all batches recovered, and with some.
PUBLISHED = {"SPEAR++, 95-100 %": ((200, 20), (1000, 65), (4000, 150))}
PUBLISHED_SOME = {"SPEAR++, 7-77 %": ((4000, 210),)}


def units(scale: Scale) -> list[dict[str, Any]]:
    """One ladder each."""
    widths = scale.pick((50, 100, 200), (100, 200, 400, 1000), (200, 400, 1000, 2000, 4000))
    return [{"width": width, "seed": seed} for width in widths for seed in scale.batches(1, 1, 3)]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Climb until a batch is not recovered; one row a rung."""
    source, limit = scale.source("CIFAR-10"), scale.pick(*SECONDS)
    rows: list[dict[str, Any]] = []
    batch_size, whole = max(2, round(unit["width"] * FIRST)), True
    while whole and not control.interrupted:
        client = Client(source, batch_size, unit["seed"], width=unit["width"])
        rung = {**unit, "batch_size": batch_size, "limit_seconds": limit}
        rows.append(_audited(rung, source, client, control.fresh(Budget(seconds=limit))))
        whole = rows[-1]["recovered"] == batch_size
        batch_size = math.ceil(batch_size * STEP)
    return rows


def _audited(unit: Row, source: str, client: Client, control: Control) -> dict[str, Any]:
    """The row of one audit: what was recovered, and when it ended."""
    model, update, truth = client.observe()
    result = attack(model, update, truth, "auto", seed=unit["seed"], control=control)
    return {
        **unit,
        "data": shown(source),
        "recovered": result.records_recovered,
        "audit_seconds": round(control.elapsed_seconds, 3),
    }


def largest(rows: Sequence[Row]) -> dict[int, tuple[int, int | None]]:
    """For every width the largest batch that all seeds recovered, and the next, which one did not.

    The latter is None where a ladder was interrupted.
    """
    found: dict[int, tuple[int, int | None]] = {}
    for width in sorted({int(row["width"]) for row in rows}):
        own = [row for row in rows if row["width"] == width]
        lost = [int(r["batch_size"]) for r in own if r["recovered"] < r["batch_size"]]
        bad = min(lost, default=None)
        good = [int(r["batch_size"]) for r in own if bad is None or r["batch_size"] < bad]
        found[width] = max(good, default=0), bad
    return found


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """A line a width."""
    seconds = {int(row["width"]): row["limit_seconds"] for row in rows}
    return [
        HEAD,
        *(
            (str(m), f"{seconds[m]:g}", str(b), f"{b / m:.2f}", str(lost or "none tried"))
            for m, (b, lost) in largest(rows).items()
        ),
    ]


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """The largest batch against the width, with the limit of information."""
    ticker = require("matplotlib.ticker", "report")
    axis = figure.subplots()
    found = largest(rows)
    sizes = [size for size, _ in found.values()]
    axis.plot(list(found), sizes, "o-", color="#0072B2", label="gradaudit, all recovered")
    for marker, published in (("s", PUBLISHED), ("D", PUBLISHED_SOME)):
        for label, points in published.items():
            axis.plot(*zip(*points, strict=True), marker, color="#D55E00", label=label)
    widths = [min(*found, 200), max(*found, 4000)]
    axis.plot(widths, [m / 2 for m in widths], "--", color="black", label="m = 2 b")
    axis.set_xscale("log")
    axis.set_yscale("log")
    for each in (axis.xaxis, axis.yaxis):
        each.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        each.set_major_formatter("{x:g}")
        each.set_minor_formatter(ticker.NullFormatter())
    axis.set_xlabel("width of the layer m")
    axis.set_ylabel("batch size b")
    axis.grid(alpha=0.3, which="both")
    axis.legend(loc="upper left")
