"""Exact, certified recovery of whole batches, over data sets and settings.

    python benchmarks/exact_recovery.py [--only PATTERN] [--seeds N] [--seconds S] [--again]

Needs the data folder named by GRADAUDIT_DATA (see CONTRIBUTING.md). Writes
benchmarks/results/exact_recovery.json and .md after every seed; seeds that are in the JSON are not
run again unless asked for, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from _cases import ADULT, CIFAR, MNIST, UNIT, Case, noisy, shifted, simulate
from _measure import measure, warm_up
from _results import Results, parser, table

SINGLE = torch.float32
# Batch size, width and number of seeds.
NORMALISED = (
    *((10, 200, 20), (16, 200, 10), (20, 200, 100), (24, 200, 100), (32, 200, 100), (40, 200, 5)),
    *((48, 200, 5),),
    *((65, 1000, 10), (100, 1000, 10), (128, 1000, 10), (150, 1000, 10), (170, 1000, 5)),
    *(
        (200, 1000, 3),
        (256, 1000, 3),
        (100, 4000, 5),
        (150, 4000, 5),
        (210, 4000, 5),
        (300, 4000, 1),
    ),
    *((400, 4000, 1), (512, 4000, 1)),
)
PIXELS = ((10, 200, 5), (64, 1000, 5), (128, 1000, 5))
ALONE = ((10, 200, 20), (16, 200, 3), (16, 2000, 3))
SCALES = (("normalised", ""), ("in [0, 1]", UNIT))


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    case: Case
    seeds: int = 5
    attack: str = "auto"


def settings() -> Iterator[Setting]:
    """All rows, in the table's order."""
    for b, m, seeds in ALONE:
        case = Case(CIFAR, b, (m,) * 5)
        yield Setting(f"SPEAR alone: CIFAR-10, b = {b}, m = {m}", case, seeds, "spear")
    for b, m, seeds in NORMALISED:
        yield Setting(f"CIFAR-10, b = {b}, m = {m}", Case(CIFAR, b, (m,) * 5), seeds)
    for b, m, seeds in PIXELS:
        case = Case(CIFAR + UNIT, b, (m,) * 5)
        yield Setting(f"CIFAR-10 in [0, 1], b = {b}, m = {m}", case, seeds)
    for scale, option in SCALES:
        for b in (32, 64, 128):
            case = Case(CIFAR + option, b, (1000,))
            yield Setting(f"Two layers, CIFAR-10 {scale}, b = {b}, m = 1000", case, 3)
    for scale, option in SCALES:
        for b in (10, 20, 32):
            case = Case(MNIST + option, b, (200, 200))
            yield Setting(f"MNIST {scale}, 784-200-200-10, b = {b}", case, 20)
        for b in (10, 20):
            yield Setting(
                f"MNIST {scale}, 784-200-10, b = {b}", Case(MNIST + option, b, (200,)), 20
            )
    yield from _variations()
    for name, data in (("CIFAR-10", CIFAR), ("MNIST", MNIST)):
        for b in (64, 128, 256):
            case = Case(data + UNIT, b, (1000,), weight_deviation=0.5)
            yield Setting(f"Wide weights, two layers, {name} in [0, 1], b = {b}, m = 1000", case)


def _variations() -> Iterator[Setting]:
    """What else changes at b = 20, m = 200, six layers of CIFAR-10; and MNIST at other sizes."""
    base = Case(CIFAR, 20)
    for b, m in ((20, 200), (40, 400), (100, 1000)):
        case = replace(base, data=MNIST, batch_size=b, widths=(m,) * 5)
        yield Setting(f"MNIST, b = {b}, m = {m}", case)
    yield Setting("Adult rows, b = 20, m = 200", Case(ADULT, 20, (200, 200)))
    yield Setting("One class, CIFAR-10, b = 20, m = 200", replace(base, label=3))
    yield Setting("Noisy twins, CIFAR-10, b = 20, m = 200", replace(base, twins=noisy))
    yield Setting("Shifted twins, CIFAR-10, b = 20, m = 200", replace(base, twins=shifted))
    for layers in (2, 9):
        case = replace(base, widths=(200,) * (layers - 1))
        yield Setting(f"{layers} layers, CIFAR-10, b = 20, m = 200", case)
    for steps in (500, 3000):
        case = replace(base, steps=steps)
        yield Setting(f"Trained for {steps} steps, CIFAR-10, b = 20, m = 200", case)
    case = replace(base, gradient_dtype=SINGLE)
    yield Setting("Gradient rounded to float32, CIFAR-10, b = 20, m = 200", case)
    yield Setting("All in float32, CIFAR-10, b = 20, m = 200", replace(base, dtype=SINGLE))
    yield Setting("First layer frozen, CIFAR-10, b = 20, m = 200", replace(base, frozen=True))


INTRODUCTION = """# Exact recovery

Each seed is another batch and another network: six layers with PyTorch's default initialisation and
cross-entropy, and `attack="auto"`, unless the name says otherwise. "Records" are certified records
that are right, of the distinct records of the batch that have a signal: a gradient above 1e-10 of
the batch's largest. A seed is complete when these are all. Errors are the largest over all entries
of those records, in the network's input units, against the truth, which the audit never sees; a
certificate is false when its record differs from every one of the batch by more than 1e-4 somewhere
(1e-2 where the gradient is in float32).

Noisy twins: half of the batch is the other half with noise of deviation 0.01; shifted: moved by one
pixel. Trained: plain SGD, 64 records a step, rate 0.05, on the data that the batch is from. First
layer frozen: the update has no gradient of it, and the records are the second layer's inputs. Wide
weights: normal with deviation 0.5, no bias.

Core seconds are those that the process computed for; the others are the clock's, with whatever else
ran, except at b = 65, 100 and 128 with m = 1000 and b = 210, 300 and 400 with m = 4000: those rows
ran with two threads on two idle cores. "Tried" are medians of what the searches counted. Memory is
what the audit added to the resident memory at its peak (Linux's VmHWM, reset before each audit,
less VmRSS then): the update itself is not in it. It stays below 2 U + 0.25 GiB + 8 KiB b^2, U being
the weights and gradients of all layers in float64: a copy of the network and its recomputed
gradient, and what candidates that are tested together take, which is never more than 0.5 GiB.
"""
HEAD = (
    "setting",
    "seeds complete",
    "records",
    "false certificates",
    "largest error",
    "labels right",
    "median core s",
    "median s",
    "max s",
    "tried",
    "MiB",
)
TRIED = ("starts", "submatrices", "descents", "neurons")


def line(name: str, rows: list[dict[str, Any]]) -> list[str]:
    """One row of the table."""
    seconds = [row["seconds"] for row in rows]
    errors = [row["max_error"] for row in rows if row["max_error"] is not None]
    tried = [
        f"{statistics.median(counts):,.0f} {unit}"
        for unit in TRIED
        if any(counts := [row["counters"].get(unit, 0.0) for row in rows])
    ]
    memory = [row["peak_mib"] for row in rows if row["peak_mib"] is not None]
    return [
        name,
        f"{sum(row['right'] == row['present'] for row in rows)} of {len(rows)}",
        f"{sum(row['right'] for row in rows):,} of {sum(row['present'] for row in rows):,}",
        str(sum(row["false"] for row in rows)),
        f"{max(errors):.1e}" if errors else "",
        f"{sum(row['labels_right'] for row in rows):,}",
        f"{statistics.median(row['core_seconds'] for row in rows):.2f}",
        f"{statistics.median(seconds):.2f}",
        f"{max(seconds):.2f}",
        ", ".join(tried),
        f"{max(memory):,.0f}" if memory else "",
    ]


def main() -> None:
    """Run the settings asked for and write the results."""
    options = parser(__doc__, seconds=600.0)
    options.add_argument("--only", default="", help="settings whose name has this pattern in it")
    options.add_argument("--seeds", type=int, help="of each setting, instead of its own number")
    options.add_argument("--list", action="store_true", help="print the names and stop")
    chosen = options.parse_args()
    everything = list(settings())
    names = [setting.name for setting in everything]
    results = Results(chosen.out / "exact_recovery.json", names, again=chosen.again)
    if not chosen.list:
        warm_up()
    for setting in everything:
        if not re.search(chosen.only, setting.name):
            continue
        if chosen.list:
            print(setting.name)
            continue
        results.begin(setting.name)
        known = {row["seed"] for row in results.rows(setting.name)}
        for seed in range(setting.seeds if chosen.seeds is None else chosen.seeds):
            if seed in known:
                continue
            sent = simulate(setting.case, seed)
            row = measure(sent, seed=seed, seconds=chosen.seconds, attack=setting.attack)
            results.add(setting.name, row)
            lines = [line(name, entry["rows"]) for name, entry in results.entries.items()]
            results.page([*INTRODUCTION.splitlines(), "", *table(HEAD, lines)])


if __name__ == "__main__":
    main()
