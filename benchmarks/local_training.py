"""Batches recovered from what local training changed (FedAvg), over settings of the training.

    python benchmarks/local_training.py [--only PATTERN] [--seeds N] [--seconds S] [--again]

CIFAR-10, six layers. Needs the data folder named by GRADAUDIT_DATA (see CONTRIBUTING.md). Writes
benchmarks/results/local_training.json and .md after every seed; an interrupted run goes on.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from _cases import CIFAR, Sent, source
from _measure import measure, warm_up
from _results import Results, parser, table

import gradaudit as ga

SINGLE, DOUBLE = torch.float32, torch.float64
# Batch size, width, epochs, mini-batch, and what SPEAR++ reports there.
SMALL, MIDDLE, LARGE = (20, 200, 3, 5), (65, 1000, 3, 5), (150, 4000, 15, 30)
PUBLISHED = {SMALL: "67.8 dB, 75 %", LARGE: "63.7 dB, 92 %"}
# Where records change sides: the rates and momenta beside the published 0.01 and none.
RATES, MOMENTUM = (0.05, 0.1, 0.2), 0.9

INTRODUCTION = """# Local training

CIFAR-10, normalised; six layers, PyTorch's initialisation; torch's SGD in E epochs of mini-batches
in random order; `attack="auto"`, which sees the weights before and their difference. A batch counts
when every record of it is certified. Errors are of certified records, against the truth; PSNR is
the mean over them, for pixels in [0, 1]. False is a certified record that is not in the batch.
Drift is half of what training changed pre-activations by, relative to their size halfway, both as
root mean squares. SPEAR++'s figures are from its table 4 (arXiv 2510.24200), by its own criterion.
"""
HEAD = (
    "setting",
    "dtype",
    "SPEAR++",
    "drift",
    "batches",
    "certified batches",
    "certified records",
    "right, certified or not",
    "PSNR",
    "largest error",
    "labels right",
    "false",
    "median core s",
)


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    shape: tuple[int, int, int, int]
    dtype: torch.dtype
    rate: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0
    seeds: int = 10

    @property
    def name(self) -> str:
        """Of the row."""
        b, m, epochs, mini = self.shape
        text = f"b = {b}, m = {m}, E = {epochs}, mini-batches of {mini}, rate {self.rate:g}"
        if self.momentum:
            text += f", momentum {self.momentum:g}"
        if self.weight_decay:
            text += f", decay {self.weight_decay:g}"
        return f"{text}, {str(self.dtype).removeprefix('torch.')}"


def settings() -> Iterator[Setting]:
    """All rows, in the table's order."""
    for dtype in (SINGLE, DOUBLE):
        yield Setting(SMALL, dtype)
    yield Setting(MIDDLE, SINGLE)
    yield Setting(LARGE, SINGLE, seeds=3)
    for rate in RATES:
        yield Setting(SMALL, SINGLE, rate)
    yield Setting(SMALL, SINGLE, momentum=MOMENTUM)
    yield Setting(SMALL, SINGLE, 0.05, momentum=MOMENTUM)
    yield Setting(SMALL, SINGLE, weight_decay=5e-4)
    yield Setting((20, 200, 15, 5), SINGLE)
    yield Setting((65, 1000, 15, 16), SINGLE)
    yield Setting((65, 1000, 3, 5), SINGLE, 0.05)


def simulate(setting: Setting, seed: int) -> tuple[Sent, float]:
    """One client, and how far its training moved pre-activations, relative to their size."""
    b, m, epochs, mini = setting.shape
    batch = source(CIFAR).batch(b, seed=seed, dtype=setting.dtype)
    model = ga.models.mlp(batch.inputs[0].numel(), [m] * 5, 10, seed=seed, dtype=setting.dtype)
    training = ga.LocalTraining(
        setting.rate,
        epochs=epochs,
        batch_size=mini,
        momentum=setting.momentum,
        weight_decay=setting.weight_decay,
    )
    client = ga.clients.FedAvg(model, training=training, seed=seed)
    update, truth = client.update(batch.inputs, batch.labels, batch.preprocessing)
    records = truth.inputs.flatten(1)
    layer = next(iter(update.linear_layers()))
    moved = records @ layer.weight_gradient.T + layer.bias_gradient
    before = records @ layer.weight.T + layer.bias
    drift = float((moved / 2).norm() / (before + moved / 2).norm())
    every = torch.ones(b, dtype=torch.bool)
    return Sent(update, truth, torch.arange(b), every), drift


def line(setting: Setting, rows: list[dict[str, Any]]) -> list[str]:
    """A row of the table."""
    size = setting.shape[0] * len(rows)
    certified = sum(row["certified"] for row in rows)
    right = sum(row["right"] for row in rows)
    usual = setting == Setting(setting.shape, setting.dtype, seeds=setting.seeds)
    name, _, dtype = setting.name.rpartition(", ")
    psnr = [row["psnr"] for row in rows if row["psnr"] is not None]
    errors = [row["max_error"] for row in rows if row["max_error"] is not None]
    return [
        name,
        dtype,
        PUBLISHED.get(setting.shape, "") if usual else "",
        f"{statistics.mean(row['drift'] for row in rows):.3f}",
        str(len(rows)),
        str(sum(row["certified"] == setting.shape[0] for row in rows)),
        f"{certified / size:.1%}",
        f"{sum(row['reconstructed'] for row in rows) / size:.1%}",
        f"{statistics.mean(psnr):.1f} dB" if psnr else "",
        f"{max(errors):.1g}" if errors else "",
        f"{sum(row['labels_right'] for row in rows)} of {right}" if right else "",
        str(sum(row["false"] for row in rows)),
        f"{statistics.median(row['core_seconds'] for row in rows):.1f}",
    ]


def main() -> None:
    """Run the settings asked for, a seed at a time."""
    options = parser(__doc__ or "", seconds=120.0)
    options.add_argument("--only", default="", help="settings whose name matches this pattern")
    options.add_argument("--seeds", type=int, help="seeds of each setting")
    chosen = options.parse_args()
    known = {setting.name: setting for setting in settings()}
    results = Results(chosen.out / "local_training.json", list(known), again=chosen.again)
    warm_up()
    for name, setting in known.items():
        if not re.search(chosen.only, name):
            continue
        results.begin(name)
        for seed in range(chosen.seeds or setting.seeds):
            if any(row["seed"] == seed for row in results.rows(name)):
                continue
            sent, drift = simulate(setting, seed)
            row = measure(sent, seed=seed, seconds=chosen.seconds)
            results.add(name, {"drift": drift} | row)
            write(results, known)
    write(results, known)


def write(results: Results, known: dict[str, Setting]) -> None:
    """The page, of all that is known so far."""
    rows = [line(known[name], entry["rows"]) for name, entry in results.entries.items()]
    results.page([INTRODUCTION, *table(HEAD, rows)])


if __name__ == "__main__":
    main()
