"""Exact, certified recovery of whole batches, over data sets and settings.

    python benchmarks/exact_recovery.py [--only NAME] [--seeds N] [--seconds S]

Needs the data folder named by GRADAUDIT_DATA (see CONTRIBUTING.md). Writes
benchmarks/results/exact_recovery.json and .md; settings that were not run keep their old figures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from environment import environment

import gradaudit as ga

RESULTS = Path(__file__).parent / "results"


SINGLE = torch.float32


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    data: str
    batch_size: int
    seeds: int
    widths: tuple[int, ...] = (200,) * 5
    label: int | None = None
    gradient_dtype: torch.dtype | None = None
    dtype: torch.dtype = torch.float64
    attack: str = "auto"


CIFAR = "cifar10_2000.npz"
SETTINGS = (
    Setting("SPEAR alone: CIFAR-10, b = 10, m = 200", CIFAR, 10, 20, attack="spear"),
    Setting("SPEAR alone: CIFAR-10, b = 16, m = 200", CIFAR, 16, 3, attack="spear"),
    Setting("SPEAR alone: CIFAR-10, b = 16, m = 2000", CIFAR, 16, 3, (2000,) * 5, attack="spear"),
    Setting("CIFAR-10, b = 10, m = 200", CIFAR, 10, 20),
    Setting("CIFAR-10, b = 16, m = 200", CIFAR, 16, 10),
    Setting("CIFAR-10, b = 16, m = 2000", CIFAR, 16, 3, (2000,) * 5),
    Setting("CIFAR-10, b = 20, m = 200", CIFAR, 20, 20),
    Setting("CIFAR-10, b = 24, m = 200", CIFAR, 24, 20),
    Setting("CIFAR-10, b = 32, m = 200", CIFAR, 32, 20),
    Setting("CIFAR-10, b = 40, m = 200", CIFAR, 40, 5),
    Setting("CIFAR-10, b = 65, m = 1000", CIFAR, 65, 3, (1000,) * 5),
    Setting("CIFAR-10, b = 100, m = 1000", CIFAR, 100, 3, (1000,) * 5),
    Setting("CIFAR-10, b = 128, m = 1000", CIFAR, 128, 2, (1000,) * 5),
    Setting("CIFAR-10, one class, b = 10, m = 200", CIFAR, 10, 5, label=3),
    Setting("CIFAR-10, one class, b = 32, m = 200", CIFAR, 32, 5, label=3),
    Setting("CIFAR-10 in [0, 1], b = 10, m = 200", CIFAR + "?normalise=unit", 10, 5),
    Setting("CIFAR-10, float32 gradient, b = 10, m = 200", CIFAR, 10, 5, gradient_dtype=SINGLE),
    Setting("CIFAR-10, all in float32, b = 10, m = 200", CIFAR, 10, 5, dtype=SINGLE),
    Setting("CIFAR-10, all in float32, b = 32, m = 200", CIFAR, 32, 5, dtype=SINGLE),
    Setting("MNIST, b = 10, m = 200", "mnist_3000.npz", 10, 5),
    Setting("MNIST, b = 20, m = 200", "mnist_3000.npz", 20, 5),
    Setting("MNIST in [0, 1], b = 10, m = 200", "mnist_3000.npz?normalise=unit", 10, 5),
    Setting("MNIST, one class, b = 10, m = 200", "mnist_3000.npz", 10, 5, label=7),
    Setting("Adult rows, b = 10, m = 200", "adult_4000.csv.gz", 10, 5, (200, 200)),
    Setting("Adult rows, b = 20, m = 200", "adult_4000.csv.gz", 20, 5, (200, 200)),
)


def run(setting: Setting, seed: int, seconds: float) -> dict[str, Any]:
    """Simulate one client, audit its update, and compare with the truth afterwards."""
    folder = os.environ["GRADAUDIT_DATA"]
    source = ga.data.load_source(f"{folder}/{setting.data}")
    batch = source.batch(setting.batch_size, seed=seed, label=setting.label, dtype=setting.dtype)
    inputs = batch.inputs.flatten(1).shape[1]
    model = ga.models.mlp(
        inputs, list(setting.widths), max(source.classes, 2), seed=seed, dtype=setting.dtype
    )
    client = ga.clients.FedSGD(model, gradient_dtype=setting.gradient_dtype)
    update, truth = client.update(batch.inputs, batch.labels, batch.preprocessing)
    started = time.perf_counter()
    budget = ga.Budget(seconds=seconds)
    result = ga.audit(update, attack=setting.attack, seed=seed, budget=budget)
    elapsed = time.perf_counter() - started
    row: dict[str, Any] = {
        "seed": seed,
        "status": result.status.value,
        "certificate": result.certificate.kind,
        "certified": result.records_recovered,
        "distinct_records": result.batch_size,
        "seconds": round(elapsed, 3),
        "submatrices": int(result.search.counters.get("submatrices", 0)),
        "starts": int(result.search.counters.get("starts", 0)),
    }
    if result.records is not None:
        labels = torch.tensor([-1 if label is None else label for label in result.labels])
        comparison = ga.metrics.compare(result.records, truth, labels=labels, structural=False)
        row["max_error"] = max(pair.max_abs_error for pair in comparison.pairs)
        row["label_accuracy"] = comparison.label_accuracy
        # A certificate is false when a certified record is not one of the batch.
        row["false_certificates"] = sum(
            recovered and pair.max_abs_error > 1e-2
            for pair in comparison.pairs
            for recovered in [result.recovered[pair.record]]
        )
    return row


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "# Exact recovery",
        "",
        "Each seed is another batch and another network (PyTorch default initialisation,",
        "cross-entropy). A seed counts when every record of the batch is certified; errors are the",
        "largest over all entries of all records, in the network's input units, against the truth,",
        'which the audit never sees. "SPEAR alone" is `attack="spear"`; the other rows are the',
        "automatic choice.",
        "",
        "| setting | seeds complete | largest error | false certificates | median s | max s | "
        "median submatrices | median starts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, entry in results.items():
        rows = entry["runs"]
        complete = sum(row["status"] == "recovered" for row in rows)
        errors = [row["max_error"] for row in rows if row["status"] == "recovered"]
        seconds = [row["seconds"] for row in rows]
        lines.append(
            f"| {name} | {complete} of {len(rows)} | {max(errors, default=float('nan')):.1e} | "
            f"{sum(row.get('false_certificates', 0) for row in rows)} | "
            f"{statistics.median(seconds):.2f} | {max(seconds):.2f} | "
            f"{statistics.median(row['submatrices'] for row in rows):,.0f} | "
            f"{statistics.median(row['starts'] for row in rows):,.0f} |"
        )
    last = next(reversed(results.values()))["environment"]
    lines += ["", f"Measured on: {json.dumps(last)}", ""]
    return "\n".join(lines)


def main() -> None:
    """Run the settings asked for and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="settings whose name contains this text")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0)
    arguments = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / "exact_recovery.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for setting in SETTINGS:
        if arguments.only not in setting.name:
            continue
        runs = []
        for seed in range(arguments.seeds or setting.seeds):
            runs.append(run(setting, seed, arguments.seconds))
            print(setting.name, runs[-1], flush=True)
        results[setting.name] = {"environment": environment(), "runs": runs}
        ordered = {s.name: results[s.name] for s in SETTINGS if s.name in results}
        file.write_text(json.dumps(ordered, indent=1) + "\n")
        (RESULTS / "exact_recovery.md").write_text(table(ordered))


if __name__ == "__main__":
    main()
