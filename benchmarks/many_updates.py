"""Many captured updates through every engine: the same results, seconds, and what a kill costs.

Each run is `gradaudit audit` as a process of its own. The Ray cluster is the one at --address, such
as one that `ray start` began, or else one of this machine.

    python benchmarks/many_updates.py [--updates 200] [--workers 2] [--address HOST:PORT]
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _results import Results, parser, table

import gradaudit as ga

BATCH, WIDTH, FEATURES, CLASSES = 20, 200, 400, 10
# What differs between two runs that found the same.
TIMES = ("created", "search")
Watch = Callable[["subprocess.Popen[str]", Path], None]


def capture(folder: Path, updates: int) -> None:
    """Updates of as many clients, each with a network and records of its own."""
    for number in range(updates):
        generator = torch.Generator().manual_seed(number)
        records = torch.randn(BATCH, FEATURES, generator=generator)
        labels = torch.randint(CLASSES, (BATCH,), generator=generator)
        network = ga.models.mlp(FEATURES, [WIDTH, WIDTH], CLASSES, generator=generator)
        update, _ = ga.clients.FedSGD(network).update(records, labels)
        update.save(folder / f"round-{number // 20:04}-node-{number % 20}.safetensors")


def run(captures: Path, out: Path, *words: str, watch: Watch | None = None) -> dict[str, Any]:
    """One run, from its start as a process to its end."""
    began = time.monotonic()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "gradaudit", "audit", str(captures)),
            *("--out", str(out), "--quiet", *words),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    if watch is not None:
        watch(process, out)
    sentence = process.communicate()[0].strip()
    return {
        "seconds": round(time.monotonic() - began, 1),
        "exit_code": process.returncode,
        "sentence": sentence,
    }


def finished(out: Path) -> int:
    """Updates that have a result."""
    return len(list((out / "rows").glob("[!.]*.json")))


def findings(out: Path) -> dict[str, Any]:
    """All that was found, to the last bit of every record, but for times."""
    found = {}
    for path in (out / "results").glob("*.json"):
        value = json.loads(path.read_text(encoding="utf-8"))
        found[path.name] = {key: item for key, item in value.items() if key not in TIMES}
    return found


def when_finished(share: float, updates: int, strike: Callable[[int], None]) -> Watch:
    """Strike once a share of the updates is done."""

    def watch(process: subprocess.Popen[str], out: Path) -> None:
        while process.poll() is None and finished(out) < share * updates:
            time.sleep(0.1)
        if process.poll() is None:
            strike(process.pid)

    return watch


def kill_a_worker(pid: int) -> None:
    """SIGKILL for the first child."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)


def kill(pid: int) -> None:
    """SIGKILL for the run itself."""
    os.kill(pid, signal.SIGKILL)


def page(rows: list[dict[str, Any]], workers: int) -> list[str]:
    """The results for readers."""
    alone = rows[0]["seconds"]
    shown = [
        [
            row["how"],
            f"{row['seconds']:.0f}",
            f"{alone / row['seconds']:.2f}" if row["same"] and not row["before"] else "",
            str(row["before"]),
            {None: "", True: "yes", False: "no"}[row["same"]],
            row["sentence"] or "killed",
        ]
        for row in rows
    ]
    return [
        "# Many updates",
        "",
        f"`gradaudit audit` of {rows[0]['updates']} captured updates (b = {BATCH}, two hidden "
        f"layers of m = {WIDTH}, records of {FEATURES} values, float32), by "
        f"`benchmarks/many_updates.py`; {workers} workers, of which each has one thread. Seconds are of the whole process. "
        "“Same” are results in which every record has the bits that it has with one process.",
        "",
        *table(["run", "seconds", "speed-up", "finished before", "same", "outcome"], shown),
    ]


def main() -> None:
    """Run all of them, and write the page."""
    options = parser(__doc__ or "", seconds=600)
    options.add_argument("--updates", type=int, default=200)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--address", help="of a Ray cluster")
    chosen = options.parse_args()
    several = ("--workers", str(chosen.workers))
    ray = ("--engine", "ray", *(("--address", chosen.address) if chosen.address else several))
    half = when_finished(0.5, chosen.updates, kill)
    worker = when_finished(0.25, chosen.updates, kill_a_worker)
    runs: list[tuple[str, str, tuple[str, ...], Watch | None]] = [
        ("one process", "one", (), None),
        (f"{chosen.workers} processes", "several", several, None),
        (f"{chosen.workers} processes, a worker killed", "worker", several, worker),
        ("Ray cluster", "ray", ray, None),
        ("one process, killed half-way", "resumed", (), half),
        ("the same words again", "resumed", (), None),
        ("and again", "resumed", (), None),
    ]
    results = Results(chosen.out / "many_updates.json", ["many updates"], again=True)
    results.begin("many updates")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        capture(folder / "captures", chosen.updates)
        for how, name, words, watch in runs:
            before = finished(folder / name)
            row = run(folder / "captures", folder / name, *words, watch=watch)
            complete = finished(folder / name) == chosen.updates
            same = findings(folder / name) == findings(folder / "one") if complete else None
            named = {"how": how, "updates": chosen.updates, "before": before, "same": same}
            results.add("many updates", named | row)
    results.page(page(results.rows("many updates"), chosen.workers))


if __name__ == "__main__":
    main()
