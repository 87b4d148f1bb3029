"""What peeling alone reads out of a batch, beside what its published figures say.

    python benchmarks/peeling.py [--only NAME] [--seeds N] [--seconds S]

Needs the data folder named by GRADAUDIT_DATA (see CONTRIBUTING.md). Writes
benchmarks/results/peeling.json and .md; settings that were not run keep their old figures.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import gradaudit as ga
from gradaudit.experiments.machine import machine
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.pool import Pool
from gradaudit.linear.problem import Setting as Sparsity
from gradaudit.linear.problem import build_problem
from gradaudit.linear.proposers import PeelingDecoder
from gradaudit.update import LinearLayer

RESULTS = Path(__file__).parent / "results"
WIDTH = 1000
WEIGHT_STD = 0.5
# A record's gradient that is so small beside the largest is lost in float64's rounding.
NO_SIGNAL = 1e-12
# Largest error of an entry, of inputs in [0, 1], at which a record counts as recovered.
RECOVERED_ERROR = 1e-3
# Largest 1 - |cos| at which a direction of the pool is a record's.
DIRECTION_ERROR = 1e-8


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    name: str
    data: str
    batch_size: int
    published: float


SETTINGS = tuple(
    Setting(f"{label}, b = {batch_size}", data, batch_size, published)
    for label, data, figures in (
        ("CIFAR-10", "cifar10_2000.npz", {64: 0.994, 128: 0.666, 256: 0.215}),
        ("MNIST", "mnist_3000.npz", {64: 0.484, 128: 0.017, 256: 0.002}),
    )
    for batch_size, published in figures.items()
)


def network(inputs: int, classes: int, seed: int) -> nn.Sequential:
    """Two layers, weights normal with standard deviation 0.5, no biases to speak of."""
    model = ga.models.mlp(
        inputs,
        [WIDTH],
        classes,
        init="normal",
        init_std=WEIGHT_STD,
        seed=seed,
        dtype=torch.float64,
    )
    with torch.no_grad():
        for layer in (model.fc1, model.fc2):
            layer.bias.zero_()
    return model


def observe(model: nn.Sequential, inputs: Tensor, labels: Tensor) -> tuple[LinearLayer, Tensor]:
    """The first layer as an attacker sees it, and dL/dZ, which the attacker does not see."""
    before = model.fc1(inputs)
    before.retain_grad()
    nn.functional.cross_entropy(model.fc2(before.relu()), labels).backward()
    layer = LinearLayer(
        "fc1",
        model.fc1.weight.detach(),
        model.fc1.bias.detach(),
        model.fc1.weight.grad,
        model.fc1.bias.grad,
    )
    return layer, before.grad.T


def closure(gradients: Tensor) -> int:
    """How many records the true pattern lets peeling reach, were all it reads verifiable."""
    left = gradients != 0
    reached = 0
    while True:
        alone = left[left.sum(1) == 1].any(0)
        if not bool(alone.any()):
            return reached
        reached += int(alone.sum())
        left[:, alone] = False


def run(setting: Setting, seed: int, seconds: float) -> dict[str, Any]:
    """Peel one client's first layer to the end, and compare with the truth afterwards."""
    folder = os.environ["GRADAUDIT_DATA"]
    source = ga.data.load_source(f"{folder}/{setting.data}?normalise=unit")
    batch = source.batch(setting.batch_size, seed=seed, dtype=torch.float64)
    records = batch.inputs.flatten(1)
    model = network(records.shape[1], source.classes, seed)
    layer, gradients = observe(model, records, batch.labels)
    started = time.perf_counter()
    factors = factor_gradient(layer.weight_gradient, generator=torch.Generator().manual_seed(seed))
    problem = build_problem(layer, factors, Sparsity.SPARSE_GRADIENT)
    decoder, pool = PeelingDecoder(problem), Pool(problem)
    tried, exhausted, directions = 0, False, []
    while not exhausted and time.perf_counter() - started < seconds:
        proposals = decoder.propose(torch.Generator(), 0)
        directions.append(proposals.directions)
        tried += proposals.tried
        exhausted = proposals.exhausted
    elapsed = time.perf_counter() - started
    pool.add(torch.cat(directions), problem.zeros_needed + 1)
    normals = decoder.normals
    scales = normals @ (factors.left.T @ layer.bias_gradient)
    found = (normals * factors.values) @ factors.right.T / scales[:, None]
    norms = gradients.norm(dim=0)
    seen = norms > NO_SIGNAL * norms.max()
    errors = torch.stack([(found - record).abs().amax(1) for record in records])
    best = errors.amin(1) if len(found) else torch.full_like(norms, torch.inf)
    recovered = best < RECOVERED_ERROR
    true_directions = nn.functional.normalize((factors.left.T @ gradients[:, seen]).T, dim=1)
    in_pool = 1 - (true_directions @ pool.directions.T).abs() < DIRECTION_ERROR
    return {
        "seed": seed,
        "no_signal": int((~seen).sum()),
        "rank": problem.batch_size,
        "closure": closure(gradients[:, seen]),
        "read": len(found),
        "recovered": int(recovered.sum()),
        "false": len(found) - int((errors.amin(0) < RECOVERED_ERROR).sum()),
        "directions_in_pool": int(in_pool.any(1).sum()),
        "max_error": float(best[recovered].max()) if bool(recovered.any()) else None,
        "exhausted": exhausted,
        "neurons_tested": tried,
        "seconds": round(elapsed, 2),
    }


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "# Peeling",
        "",
        f"Two layers, {WIDTH:,} neurons, weights normal with standard deviation {WEIGHT_STD}, zero",
        "biases, inputs in [0, 1], cross-entropy, float64; each seed is another batch and another",
        f"network. A record is recovered when no entry is off by more than {RECOVERED_ERROR}. One",
        f"without signal has a gradient below {NO_SIGNAL} of the largest: the softmax is",
        "saturated, float64 rounds the record away, and no attack on the gradient sees it. Our",
        "rate is given of all records and of those with signal; of which the published one is, is",
        "not known to us. The closure is what the true activation pattern lets peeling reach. The",
        "pool is the search's own, independent check. Published figures: the passive attack of",
        '"Cascading gradient inversion via LT-code inspired peeling" (2026).',
        "Seconds are of the reading alone, beside other work on the same cores.",
        "",
        "| setting | published | recovered of all | of those with signal | without signal, by seed "
        "| recovered, by seed | closure, by seed | read with an error | largest error "
        "| in the pool, by seed | max s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for entry in results.values():
        rows, size = entry["runs"], entry["batch_size"]
        recovered = sum(row["recovered"] for row in rows)
        signal = sum(size - row["no_signal"] for row in rows)
        errors = [row["max_error"] for row in rows if row["max_error"] is not None]
        by_seed = {
            name: ", ".join(str(row[name]) for row in rows)
            for name in ("no_signal", "recovered", "closure", "directions_in_pool")
        }
        lines.append(
            f"| {entry['name']} | {entry['published']:.3f} | {recovered / size / len(rows):.3f} | "
            f"{recovered / signal:.3f} | {by_seed['no_signal']} | {by_seed['recovered']} | "
            f"{by_seed['closure']} | {sum(row['false'] for row in rows)} | "
            f"{max(errors, default=float('nan')):.1e} | {by_seed['directions_in_pool']} | "
            f"{max(row['seconds'] for row in rows):.0f} |"
        )
    last = next(reversed(results.values()))["environment"]
    lines += ["", f"Measured on: {json.dumps(last)}", ""]
    return "\n".join(lines)


def main() -> None:
    """Run the settings asked for and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="settings whose name contains this text")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=300.0, help="of one seed at most")
    arguments = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / "peeling.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for setting in SETTINGS:
        if arguments.only not in setting.name:
            continue
        runs = []
        for seed in range(arguments.seeds):
            runs.append(run(setting, seed, arguments.seconds))
            print(setting.name, runs[-1], flush=True)
        results[setting.name] = {
            "name": setting.name,
            "batch_size": setting.batch_size,
            "published": setting.published,
            "environment": machine(),
            "runs": runs,
        }
        ordered = {s.name: results[s.name] for s in SETTINGS if s.name in results}
        file.write_text(json.dumps(ordered, indent=1) + "\n")
        (RESULTS / "peeling.md").write_text(table(ordered))


if __name__ == "__main__":
    main()
