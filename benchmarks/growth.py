"""How the automatic attack grows: seconds against b, and the largest b against the width.

    python benchmarks/growth.py [--widths 200 500] [--seeds N] [--seconds S] [--again]

CIFAR-10, six layers; S is in seconds of one core. Needs GRADAUDIT_DATA; a run that was interrupted
goes on where it was.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from _cases import CIFAR, Case, simulate
from _measure import measure, warm_up
from _plots import COLOURS, plain_ticks
from _results import Results, parser, table
from matplotlib.axes import Axes
from matplotlib.figure import Figure

RATIO = 10
TIMED = (200, 400, 700, 1000, 1500, 2000)
WIDTHS = (200, 400, 1000, 2000, 4000)
# From m / FIRST the ladder rises by STEP until a batch is not recovered; what lies between is
# halved until it is this part of b.
FIRST, STEP, RESOLUTION = 8, 1.25, 0.1
# By the clock an audit may take so many times its core seconds: other work must not decide.
CLOCK = 10.0
# Width, batch size, and whether nearly all is recovered there: the settings that SPEAR++ shows.
PUBLISHED = ((200, 20, True), (1000, 65, True), (4000, 150, True), (4000, 210, False))

INTRODUCTION = f"""# Growth

CIFAR-10, six layers, PyTorch's initialisation, `attack="auto"`. Recovered means that every distinct
record is certified and right, within the limit of core seconds, for every seed.

![Seconds against b, and the largest b against m](growth.png)

## Core seconds at b = m / {RATIO}
"""
LARGEST = f"""
## The largest b that is recovered

A ladder from m / {FIRST} up by {STEP:g}, then bisection, to within {RESOLUTION:.0%}: the last
column is the smallest batch that was tried and not recovered within the limit. More time may
recover more. The plot has beside it the accuracies that SPEAR++ reports (arXiv 2510.24200, tables 1
and 2, by its own criterion): 95-100 % at (b, m) = (20, 200), (65, 1000) and (150, 4000), and 7-77 %
at (210, 4000). Above the line 2 b = m a true direction has no more zeros, about m / 2, than any
direction can be given, b - 1. The line b = m^(2/3), or m = b^1.5, is there for the eye.
"""


def trial(results: Results, m: int, b: int, seed: int, limit: float) -> dict[str, Any]:
    """One audit of so many core seconds at most, or what is known of it."""
    name, setting = f"m = {m}", {"width": m, "batch_size": b, "limit_core_seconds": limit}
    for row in results.rows(name):
        if row["seed"] == seed and setting.items() <= row.items():
            return row
    sent = simulate(Case(CIFAR, b, (m,) * 5), seed)
    row = setting | measure(sent, seed=seed, seconds=CLOCK * limit, core_seconds=limit)
    results.add(name, row)
    return row


def complete(row: dict[str, Any]) -> bool:
    """Whether the audit recovered the batch, and within the limit."""
    return row["right"] == row["present"] and row["core_seconds"] <= row["limit_core_seconds"]


def largest(m: int, recovers: Callable[[int], bool]) -> tuple[int, int]:
    """The largest batch that is recovered and the smallest that is not, as far as was tried."""
    good, bad, b = 0, 0, max(m // FIRST, 1)
    while not bad:
        if recovers(b):
            good, b = b, math.ceil(b * STEP)
        else:
            bad = b
    while bad - good > max(1, RESOLUTION * good):
        b = (good + bad) // 2
        good, bad = (b, bad) if recovers(b) else (good, b)
    return good, bad


def exponent(points: list[tuple[int, float]]) -> float:
    """The slope of a line through the points in logarithms."""
    return float(np.polyfit(*np.log(points).T, 1)[0])


def plot(timed: list[tuple[int, float]], limits: list[tuple[int, int]], seconds: float) -> Figure:
    """Both questions, one panel each."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    label = f"slope {exponent(timed):.2f}" if len(timed) > 1 else None
    left.plot(*zip(*timed, strict=True), "o-", color=COLOURS[0], label=label)
    left.set(
        xlabel=f"b, with m = {RATIO} b", ylabel="median core seconds", title="Time of an audit"
    )
    if limits:
        label = f"gradaudit, {seconds:g} core s an audit"
        right.plot(*zip(*limits, strict=True), "o-", color=COLOURS[0], label=label)
    for mostly, marker, label in ((True, "s", "95-100 %"), (False, "D", "7-77 %")):
        points = [(m, b) for m, b, most in PUBLISHED if most is mostly]
        right.plot(
            *zip(*points, strict=True),
            marker,
            color=COLOURS[1],
            fillstyle="full" if mostly else "none",
            label=f"SPEAR++, published: {label}",
        )
    widths = np.geomspace(min(WIDTHS), max(WIDTHS))
    right.plot(widths, widths / 2, "--", color=COLOURS[2], label="2 b = m")
    right.plot(widths, widths ** (2 / 3), ":", color=COLOURS[3], label="b = m^(2/3)")
    right.set(xlabel="width m", ylabel="batch size b", title="Largest batch recovered")
    for axes in (left, right):
        _finish(axes)
    return figure


def _finish(axes: Axes) -> None:
    axes.set(xscale="log", yscale="log")
    axes.grid(which="both", alpha=0.2)
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")


def main() -> None:
    """Run what is missing, and write the results."""
    options = parser(__doc__, seconds=300.0)
    options.add_argument("--widths", nargs="*", type=int, default=WIDTHS, help="of the largest b")
    options.add_argument("--timed", nargs="+", type=int, default=TIMED, help="widths of the times")
    options.add_argument("--seeds", type=int, default=2)
    chosen = options.parse_args()
    names = [f"m = {m}" for m in sorted({*chosen.timed, *chosen.widths, *TIMED, *WIDTHS})]
    results = Results(chosen.out / "growth.json", names, again=chosen.again)
    for m in {*chosen.timed, *chosen.widths}:
        results.begin(f"m = {m}")

    warm_up()

    def audits(m: int, b: int) -> list[dict[str, Any]]:
        return [trial(results, m, b, seed, chosen.seconds) for seed in range(chosen.seeds)]

    timed, times = [], []
    for m in chosen.timed:
        rows = audits(m, m // RATIO)
        done = sum(map(complete, rows))
        median = statistics.median(row["core_seconds"] for row in rows)
        times.append([str(m), str(m // RATIO), f"{done} of {len(rows)}", f"{median:.2f}"])
        if done == len(rows):
            timed.append((m // RATIO, median))
    limits, ladder = [], []
    for m in chosen.widths:

        def recovers(b: int, m: int = m) -> bool:
            return all(
                complete(trial(results, m, b, seed, chosen.seconds)) for seed in range(chosen.seeds)
            )

        good, bad = largest(m, recovers)
        limits.append((m, good))
        ladder.append([str(m), str(good), f"{good / m:.2f}", str(bad)])
    lines = [
        *INTRODUCTION.splitlines(),
        "",
        *table(("m", "b", "seeds recovered", "median core s"), times),
        *([f"\nCore seconds grow as b^{exponent(timed):.2f}."] if len(timed) > 1 else []),
        *LARGEST.splitlines(),
        f"\nLimit: {chosen.seconds:g} core seconds an audit; {chosen.seeds} seeds.\n",
        *table(("m", "largest b", "b / m", "not recovered"), ladder),
    ]
    results.page(lines)
    plot(timed, limits, chosen.seconds).savefig(chosen.out / "growth.png", dpi=150)


if __name__ == "__main__":
    main()
