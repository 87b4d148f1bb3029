"""SPEAR++ against SPEAR: how the time grows with the batch size."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradaudit.budget import Budget, Control
from gradaudit.errors import require
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import Client, compared_with
from gradaudit.experiments.spear_search import first_layer
from gradaudit.linear.invert import invert

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spearpp-growth"
TITLE = "Time against batch size: a power of b, or exponential in b"
SOURCE = "SPEAR++ (arXiv 2510.24200), section 5; SPEAR (arXiv 2403.03945), Figure 4"
DIFFERS = (
    "The papers state how the time grows; they print no times to compare with. All searches have "
    "networks of the same width, see the rows, and count the search of the first layer alone, "
    "with the directions that are solved for once nearly all others are there. Both laws are "
    "fitted by least squares to the logarithm of the seconds of batches that were recovered "
    "whole, within the time limit; the error is that of the logarithm (standard deviation), so "
    "that the smaller one fits better. The slope of a fit over few batch sizes is rough, and as b "
    "nears what the width allows every search slows down, whatever its law. At `--quick` the laws "
    "are not told apart, and none is claimed: most searches end within three seconds, of which "
    "half a second or more does not depend on b. `--standard` goes to b = 160, or 18, with three "
    "batches of each size and 200 seconds; it would show SPEAR doubling with every record or two, "
    "and the others with a lower error on the left than on the right, if what the papers state "
    "holds here."
)
ATTACKS = {"halfspace": "o-", "spear++": "s--", "spear": "^:"}
COLOURS = dict(zip(ATTACKS, ("#0072B2", "#D55E00", "#009E73"), strict=True))
HEAD = ("search", "largest b recovered", "power law: s ~ b^k", "error", "s ~ 2^(b / d)", "error")
# Of one search, by scale.
SECONDS = (15.0, 200.0, 3600.0)
# A line through two points fits without saying anything.
FEWEST_SIZES = 3


def units(scale: Scale) -> list[dict[str, Any]]:
    """One search each."""
    polynomial = scale.pick((20, 40, 80, 120), (20, 40, 80, 120, 160), (25, 50, 100, 150, 210))
    exponential = scale.pick((8, 10, 12, 14, 16), (8, 10, 12, 14, 16, 18), (8, 12, 16, 20, 24))
    return [
        {
            "attack": name,
            "batch_size": batch_size,
            "width": scale.pick(1000, 1500, 4000),
            "seed": seed,
        }
        for name in ATTACKS
        for batch_size in (exponential if name == "spear" else polynomial)
        for seed in scale.batches(2, 3, 10)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Search one batch with one proposer alone."""
    source = scale.source("CIFAR-10")
    client = Client(source, unit["batch_size"], unit["seed"], width=unit["width"])
    _, update, truth = client.observe()
    generator = torch.Generator().manual_seed(unit["seed"])
    limited = control.fresh(Budget(seconds=scale.pick(*SECONDS)))
    problem = first_layer(update, generator)
    found = invert(problem, proposer=unit["attack"], generator=generator, control=limited)
    seconds = limited.elapsed_seconds
    exact = found.batch is not None and compared_with(found.batch.records, truth).exact_batch
    return [{**unit, "data": shown(source), "exact": exact, "search_seconds": round(seconds, 4)}]


def medians(rows: Sequence[Row], name: str) -> list[tuple[int, float]]:
    """Batch sizes of which every batch was recovered, and the median seconds."""
    own = [row for row in rows if row["attack"] == name]
    points = []
    for size in sorted({int(row["batch_size"]) for row in own}):
        batches = [row for row in own if row["batch_size"] == size]
        if all(row["exact"] for row in batches):
            points.append((size, statistics.median(row["search_seconds"] for row in batches)))
    return points


def fit(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """The slope of the logarithm of y over x, and the standard deviation of what is left.

    Example:
        >>> slope, error = fit([(1, 2.0), (2, 4.0), (3, 8.0)])
        >>> round(slope / math.log(2), 6), round(error, 6)
        (1.0, 0.0)
    """
    if len(points) < FEWEST_SIZES:
        return None
    x, y = np.array(points, dtype=float).T
    slope, offset = np.polyfit(x, np.log(y), 1)
    left = np.log(y) - offset - slope * x
    return float(slope), math.sqrt(float(left @ left) / (len(points) - 2))


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """Both laws for every search."""
    lines: list[Sequence[str]] = [HEAD]
    for name in ATTACKS:
        points = medians(rows, name)
        power, exponential = fit([(math.log(b), s) for b, s in points]), fit(points)
        if power is None or exponential is None:
            fitted = ("too few sizes", "", "", "")
        else:
            doubling = math.log(2) / exponential[0]
            fitted = (
                f"k = {power[0]:.1f}",
                f"{power[1]:.2f}",
                f"d = {doubling:.1f}",
                f"{exponential[1]:.2f}",
            )
        lines.append((name, str(max((b for b, _ in points), default="none")), *fitted))
    return lines


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Seconds against b twice: a power is a line on the left, an exponential on the right."""
    ticker = require("matplotlib.ticker", "report")
    plain = {"subs": (1.0, 2.0, 5.0)}
    for axis, scale in zip(figure.subplots(1, 2, sharey=True), ("log", "linear"), strict=True):
        for name, style in ATTACKS.items():
            points = medians(rows, name)
            if points:
                axis.plot(*zip(*points, strict=True), style, color=COLOURS[name], label=name)
        axis.set_xscale(scale)
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(ticker.LogLocator(**plain))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(ticker.NullFormatter())
        if scale == "log":
            axis.xaxis.set_major_locator(ticker.LogLocator(**plain))
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_formatter(ticker.NullFormatter())
        axis.set_xlabel(f"batch size b ({scale} scale)")
        axis.grid(alpha=0.3)
    figure.axes[0].set_ylabel("seconds until recovered (median)")
    figure.axes[0].legend()
