"""Memory of factoring and auditing large layers: peak beside the gradient, seconds, accuracy.

Every case is a process of its own, which makes the gradient of a network of random weights in
place, without copies, and measures by how much its resident memory rises from there. The largest
case, a layer of 16,000 neurons over ImageNet's inputs, takes 12 GiB and half an hour of a core.

    python benchmarks/memory.py [--cases 2000x37632 16000x150528]
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from _measure import PeakMemory
from _results import Results, parser, table

import gradaudit as ga
from gradaudit.linear.factor import factor_gradient

RECORDS, CLASSES = 64, 10
# Enough for copies, so that a gradient of any size is decomposed as a whole.
COPIES_ALLOWED = 2**50
SIZES = ((2_000, 37_632), (4_000, 37_632), (16_000, 150_528))
# An audit needs the weights beside the gradient, and copies take several times its size.
AUDITED, COPIED = ((2_000, 37_632),), ((1_000, 37_632),)
# What an audit of a large layer may take beside its update.
AUDIT_LIMIT = 2**30
ROWS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Layer:
    """A network's first layer and what one batch makes of it.

    Attributes:
        gradient: dL/dW, float32, made in place.
        bias_gradient: dL/db.
        weight: W, or None where it was not kept.
        after: The weights of the second layer, and their gradients.
    """

    gradient: torch.Tensor
    bias_gradient: torch.Tensor
    weight: torch.Tensor | None
    after: tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def make(rows: int, columns: int, *, keep_weights: bool) -> Layer:
    """The gradient of a two-layer network on random inputs, a few rows at a time."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(RECORDS, columns, generator=generator)
    weight = torch.empty(rows, columns) if keep_weights else None
    outputs = torch.empty(RECORDS, rows)
    for start in range(0, rows, ROWS_AT_ONCE):
        part = torch.empty(min(ROWS_AT_ONCE, rows - start), columns)
        part.normal_(0, columns**-0.5, generator=generator)
        outputs[:, start : start + len(part)] = inputs @ part.T
        if weight is not None:
            weight[start : start + len(part)] = part
    last = torch.randn(CLASSES, rows, generator=generator) * rows**-0.5
    hidden = outputs.relu()
    slopes = torch.softmax(hidden @ last.T, 1)
    labels = torch.randint(CLASSES, (RECORDS,), generator=generator)
    slopes[torch.arange(RECORDS), labels] -= 1
    slopes /= RECORDS
    signals = (slopes @ last) * (outputs > 0)
    gradient = torch.empty(rows, columns)
    for start in range(0, rows, ROWS_AT_ONCE):
        part = gradient[start : start + ROWS_AT_ONCE]
        torch.mm(signals[:, start : start + ROWS_AT_ONCE].T, inputs, out=part)
    return Layer(gradient, signals.sum(0), weight, (last, slopes.T @ hidden, slopes.sum(0)))


def measure(rows: int, columns: int, what: str) -> dict[str, Any]:
    """One case, in this process: ``blocks``, ``copies`` (the whole SVD's route) or ``audit``."""
    layer = make(rows, columns, keep_weights=what == "audit")
    size = layer.gradient.numel() * layer.gradient.element_size()
    # Libraries load what they need on first use, which is no case's memory.
    factor_gradient(torch.eye(8), generator=torch.Generator().manual_seed(0))
    row: dict[str, Any] = {"rows": rows, "columns": columns, "what": what, "gradient_bytes": size}
    update = _update(layer) if what == "audit" else None
    peak, started, worked = PeakMemory(), time.perf_counter(), time.process_time()
    if update is not None:
        result = ga.audit(update, budget=ga.Budget(seconds=None, memory=AUDIT_LIMIT))
        row |= {"rank": result.batch_size, "certified": result.records_recovered}
        row["certificate"] = result.certificate.kind
    else:
        factors = factor_gradient(
            layer.gradient,
            generator=torch.Generator().manual_seed(0),
            memory=COPIES_ALLOWED if what == "copies" else None,
        )
        row |= {"rank": factors.rank, "gap": factors.spectrum.gap_ratio}
    row |= {
        "rise_mib": peak.mib(),
        "seconds": round(time.perf_counter() - started, 1),
        "core_seconds": round(time.process_time() - worked, 1),
    }
    if what == "copies":
        row |= _difference(layer.gradient, factors)
    return row


def _update(layer: Layer) -> ga.Update:
    last, last_change, last_bias = layer.after
    assert layer.weight is not None
    weights = {"0.weight": layer.weight, "0.bias": torch.zeros(len(layer.weight))}
    weights |= {"2.weight": last, "2.bias": torch.zeros(CLASSES)}
    gradient = {"0.weight": layer.gradient, "0.bias": layer.bias_gradient}
    return ga.Update(weights, gradient=gradient | {"2.weight": last_change, "2.bias": last_bias})


def _difference(gradient: torch.Tensor, whole: Any) -> dict[str, float]:
    """How far the route in blocks is from the other one: singular values, and the row space."""
    blocks = factor_gradient(gradient, generator=torch.Generator().manual_seed(1), memory=2**30)
    assert blocks.streamed
    assert not whole.streamed
    outside = blocks.right - whole.right @ (whole.right.T @ blocks.right)
    return {
        "values_differ": float((blocks.values / whole.values - 1).abs().max()),
        "spaces_differ": float(torch.linalg.matrix_norm(outside, ord=2)),
    }


def page(rows: list[dict[str, Any]]) -> list[str]:
    """The results for readers."""
    shown = [
        [
            f"{row['rows']:,} x {row['columns']:,}",
            row["what"],
            f"{row['gradient_bytes'] / 2**30:.2f}",
            f"{row['rise_mib'] / 1024:.2f}",
            f"{1 + row['rise_mib'] * 2**20 / row['gradient_bytes']:.2f}",
            f"{row['seconds']:,.0f}",
            f"{row['core_seconds']:,.0f}",
            str(row["rank"]),
            str(row.get("certified", "")),
        ]
        for row in sorted(rows, key=lambda row: (row["what"], row["gradient_bytes"]))
    ]
    head = ["layer", "what", "gradient, GiB", "rise, GiB", "peak / gradient"]
    head += ["seconds", "core seconds", "rank", "certified"]
    lines = [
        "# Memory",
        "",
        f"Gradients of {RECORDS} records in float32, by `benchmarks/memory.py`. `blocks`: factored "
        "in blocks, as every layer of more than 2^26 weights is. `copies`: factored with copies in "
        "float64, as smaller ones are. `audit`: a whole audit that may take 1 GiB "
        "(`--max-memory 1GiB`) beside the update, whose weights are as large as the gradient. "
        "The rise is that of the process's resident memory above what it held with the update; the "
        "peak counts the gradient itself once.",
        "",
        *table(head, shown),
    ]
    for row in rows:
        if "values_differ" in row:
            lines += [
                "",
                f"At {row['rows']:,} x {row['columns']:,} the two routes differ by "
                f"{row['values_differ']:.1e} of a singular value at most, and their row spaces by "
                f"an angle of {row['spaces_differ']:.1e}.",
            ]
    return lines


def main() -> None:
    """Measure what is not known yet, and write the page."""
    options = parser(__doc__ or "", seconds=0)
    options.add_argument("--cases", nargs="*", help="sizes such as 2000x37632; all by default")
    options.add_argument("--one", nargs=3, help="rows, columns, what: here")
    chosen = options.parse_args()
    if chosen.one:
        print(json.dumps(measure(int(chosen.one[0]), int(chosen.one[1]), chosen.one[2])))
        return
    cases = [(*size, "blocks") for size in SIZES]
    cases += [(*size, "audit") for size in AUDITED] + [(*size, "copies") for size in COPIED]
    names = [f"{rows}x{columns} {what}" for rows, columns, what in cases]
    results = Results(chosen.out / "memory.json", names, again=chosen.again)
    for (rows, columns, what), name in zip(cases, names, strict=True):
        if chosen.cases and f"{rows}x{columns}" not in chosen.cases:
            continue
        results.begin(name)
        if not results.rows(name):
            child = [sys.executable, str(Path(__file__)), "--one", str(rows), str(columns), what]
            done = subprocess.run(child, check=True, capture_output=True, text=True)
            results.add(name, json.loads(done.stdout.splitlines()[-1]))
    results.page(page([row for name in names for row in results.rows(name)]))


if __name__ == "__main__":
    main()
