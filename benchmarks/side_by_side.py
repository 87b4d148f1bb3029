"""The searches on the same updates: how many directions each has verified, against time.

    python benchmarks/side_by_side.py [--shapes 20x200 65x1000] [--seeds N] [--seconds S] [--again]

CIFAR-10, six layers, in seconds of one core, which other work does not take. The half-space search
goes first; SPEAR++ then gets 20 times what it took, the others S seconds. Needs GRADAUDIT_DATA; a
run that was interrupted goes on where it was.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from _cases import CIFAR, Case, Sent, simulate
from _measure import measure, warm_up
from _plots import COLOURS, STYLES, plain_ticks
from _results import Results, parser, table
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import gradaudit as ga
from gradaudit.linear.problem import Problem
from gradaudit.linear.proposers import PROPOSERS, DictionarySearch

SHAPES = ("20x200", "65x1000", "100x4000")
REFERENCE, DICTIONARY, PUBLISHED = "halfspace", "spear++", "spear++ as published"
ATTACKS = (REFERENCE, PUBLISHED, DICTIONARY, "peeling", "spear")
PATIENCE = 20.0
# By the clock a search may take so many times its core seconds: other work must not decide.
CLOCK = 20.0
# Where a plot begins: a logarithmic axis has no zero.
FIRST_SECOND = 0.1

INTRODUCTION = f"""# Searches side by side

Each line is one search alone (`attack=...`) on the same updates: CIFAR-10, six layers, PyTorch's
initialisation. A direction counts as found when the shared pool has verified it, whether or not the
batch is ever completed; "certified" are records at the end, right against the truth. Directions
that are solved for once nearly all others are there count too, with every search.

"spear++ as published" descends as the paper's text has it, l1 by Riemannian Adam on the entries of
U S^(1/2) q from starts all over the sphere; rates and steps, of which it says nothing, are ours
(and the paper reports 95 % of batches at b = 20, m = 200, which these do not reach).
"spear++" is what `attack="spear++"` does: rows whitened and of equal norm, and starts beside what
is known, both ours.

Seconds are those of one core. The ratio is SPEAR++'s seconds to as many directions as the
half-space search found, over that search's own seconds to them. SPEAR++ may use {PATIENCE:g} times
as many; the ratio is then at least that. Medians over seeds.

![Directions found against time](side_by_side.png)
"""
HEAD = (
    "b, m",
    "search",
    "seeds",
    "found",
    "core s to the last",
    "certified",
    "whole core s",
    "ratio",
)


class AsPublished(DictionarySearch):
    """SPEAR++ without what we added to it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem, preconditioned=False, avoid_known=False)


def run(sent: Sent, attack: str, seed: int, seconds: float) -> dict[str, Any]:
    """One search on one update, with its curve: pairs of core seconds and directions found."""
    curve: list[tuple[float, int]] = []
    searched = float("inf")
    # Without success the audit goes on to inner layers, which are another matter.
    layer = next(iter(sent.update.linear_layers())).name

    def listen(progress: ga.Progress) -> None:
        nonlocal searched
        if not progress.phase.startswith(f"layer {layer}:"):
            return
        searched = time.process_time() - started
        if progress.found > (curve[-1][1] if curve else 0):
            curve.append((round(searched, 3), progress.found))

    name, usual = attack, PROPOSERS[DICTIONARY]
    if attack == PUBLISHED:
        name, PROPOSERS[DICTIONARY] = DICTIONARY, AsPublished
    started = time.process_time()
    try:
        row = measure(
            sent,
            seed=seed,
            seconds=CLOCK * seconds,
            attack=name,
            listener=listen,
            core_seconds=seconds,
        )
    finally:
        PROPOSERS[DICTIONARY] = usual
    # The round that completes a batch is not reported; the certification after it is.
    last = min(int(row["counters"].get("candidate_directions", 0)), int(sent.signals.numel()))
    if row["layer"] == layer and last > (curve[-1][1] if curve else 0):
        curve.append((round(searched, 3), last))
    return {"attack": attack, "curve": curve} | row


def seconds_to(row: dict[str, Any], count: int) -> float | None:
    """When so many directions were found, or None."""
    return next((seconds for seconds, found in row["curve"] if found >= count), None)


def found(row: dict[str, Any]) -> int:
    """Directions found in the end."""
    return row["curve"][-1][1] if row["curve"] else 0


def ratio(rows: list[dict[str, Any]], attack: str) -> str:
    """That search's time over the half-space search's, to the same count."""
    by_seed = {row["seed"]: row for row in rows if row["attack"] == REFERENCE and row["curve"]}
    ratios = []
    for row in rows:
        reference = by_seed.get(row["seed"])
        if row["attack"] == attack and reference:
            seconds = seconds_to(row, found(reference))
            ratios.append(seconds / reference["curve"][-1][0] if seconds else float("inf"))
    if not ratios:
        return ""
    median = statistics.median_low(ratios)
    return f"{median:.1f}" if median < PATIENCE else f"≥ {PATIENCE:g}"


def lines(name: str, rows: list[dict[str, Any]]) -> list[list[str]]:
    """A shape's rows of the table."""
    cells = []
    for attack in ATTACKS:
        mine = [row for row in rows if row["attack"] == attack]
        if mine:
            last = [row["curve"][-1][0] for row in mine if row["curve"]]
            cells.append(
                [
                    name,
                    attack,
                    str(len(mine)),
                    f"{statistics.median(map(found, mine)):g}",
                    f"{statistics.median(last):.2f}" if last else "",
                    f"{statistics.median(row['right'] for row in mine):g}",
                    f"{statistics.median(row['core_seconds'] for row in mine):.1f}",
                    ratio(rows, attack) if attack in (DICTIONARY, PUBLISHED) else "",
                ]
            )
    return cells


def plot(results: Results, file: str) -> None:
    """One panel a shape, one curve a search and seed."""
    entries = results.entries
    figure = Figure(figsize=(4.2 * len(entries), 3.8), layout="constrained")
    for axes, (name, entry) in zip(
        figure.subplots(1, len(entries), squeeze=False)[0], entries.items(), strict=True
    ):
        for row in entry["rows"]:
            place = ATTACKS.index(row["attack"])
            points = [(FIRST_SECOND, 0), *row["curve"], (row["core_seconds"], found(row))]
            axes.step(
                *zip(*points, strict=True),
                where="post",
                color=COLOURS[place],
                linestyle=STYLES[place],
                label=row["attack"] if row["seed"] == 0 else None,
            )
        axes.set(title=name, xscale="log", xlabel="core seconds", ylabel="directions verified")
        axes.set(xlim=(FIRST_SECOND, None), ylim=(0, None))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        plain_ticks(axes.xaxis)
        axes.grid(alpha=0.3)
    figure.axes[0].legend()
    figure.savefig(file, dpi=150)


def main() -> None:
    """Run what is missing, and write the results after each search."""
    options = parser(__doc__, seconds=600.0)
    options.add_argument("--shapes", nargs="+", default=SHAPES, choices=SHAPES, metavar="BxM")
    options.add_argument("--seeds", type=int, default=3)
    chosen = options.parse_args()
    warm_up()
    names = {shape: "b = {}, m = {}".format(*shape.split("x")) for shape in SHAPES}
    results = Results(chosen.out / "side_by_side.json", list(names.values()), again=chosen.again)
    for shape in chosen.shapes:
        name = names[shape]
        results.begin(name)
        batch_size, width = map(int, shape.split("x"))
        for seed in range(chosen.seeds):
            known = {row["attack"]: row for row in results.rows(name) if row["seed"] == seed}
            if len(known) == len(ATTACKS):
                continue
            sent = simulate(Case(CIFAR, batch_size, (width,) * 5), seed)
            for attack in ATTACKS:
                if attack in known:
                    continue
                seconds = chosen.seconds
                if attack in (DICTIONARY, PUBLISHED) and known[REFERENCE]["curve"]:
                    seconds = PATIENCE * known[REFERENCE]["curve"][-1][0]
                known[attack] = run(sent, attack, seed, seconds)
                results.add(name, known[attack])
                cells = [c for n, entry in results.entries.items() for c in lines(n, entry["rows"])]
                results.page([*INTRODUCTION.splitlines(), "", *table(HEAD, cells)])
                plot(results, str(chosen.out / "side_by_side.png"))


if __name__ == "__main__":
    main()
