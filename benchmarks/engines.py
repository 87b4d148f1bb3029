"""The same captured updates through every engine: the same results, seconds, and deaths survived.

Simulated updates of CIFAR-10 batches (photo patches without the data) are audited in one process,
by two worker processes and on a Ray cluster of two nodes that is started for it; by the latter two
also with a worker killed in mid-run; and a run that is interrupted half way is resumed.

    GRADAUDIT_DATA=DIR python benchmarks/engines.py [--updates 200]
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from _results import Results, parser, table

import gradaudit as ga
from gradaudit.budget import Control
from gradaudit.bulk import AuditSettings, Summary
from gradaudit.data import load_source
from gradaudit.engine import Done, Engine, InProcess, Processes, Ray, Unit

# In the place of this folder, where a file may be called what a library is that Ray imports.
sys.path[0] = str(Path(__file__).parents[1] / "tests")
from engine import clusters  # noqa: E402
from engine.checks import wait_until  # noqa: E402

BATCH_SIZE, WIDTH = 20, 200
# Seconds after a unit ended, its worker is killed: it is at work on the next one then.
KILL_AFTER = 0.5


def simulate(folder: Path, updates: int) -> str:
    """Write the updates; what they are of."""
    data = Path(os.environ.get("GRADAUDIT_DATA", "")) / "cifar10_2000.npz"
    spec = f"{data}?normalise=unit" if data.is_file() else "patches"
    source = load_source(spec)
    for seed in range(updates):
        batch = source.batch(BATCH_SIZE, seed=seed, dtype=torch.float64)
        features = batch.inputs[0].numel()
        classes = max(source.classes, 2)
        model = ga.models.mlp(features, [WIDTH, WIDTH], classes, seed=seed, dtype=torch.float64)
        update, _ = ga.clients.FedSGD(model).update(batch.inputs, batch.labels)
        update.save(folder / f"client-{seed:03}.safetensors")
    return "CIFAR-10" if data.is_file() else "photo patches"


class Watched:
    """An engine, of which it is noted what it did; and a worker that is killed, if asked for.

    Args:
        engine: The engine.
        kill_at: After so many units, the worker of the last one is killed; 0 for none.
        stop_at: After so many units the run is interrupted; 0 for never.
    """

    def __init__(self, engine: Engine, *, kill_at: int = 0, stop_at: int = 0) -> None:
        self._engine, self._kill_at, self._stop_at = engine, kill_at, stop_at
        self.name, self.workers = engine.name, engine.workers
        self.repeated = 0

    def run(self, units: Sequence[Unit], control: Control) -> Iterator[Done]:
        """As the engine does it."""
        for number, done in enumerate(self._engine.run(units, control), 1):
            self.repeated += done.attempts - 1
            if number == self._kill_at:
                pid = int(done.worker.rpartition(" ")[2])
                threading.Timer(KILL_AFTER, os.kill, (pid, signal.SIGKILL)).start()
            if number == self._stop_at:
                control.interrupt()
            yield done

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        """The engine is whoever's who opened it."""


def contents(folder: Path) -> dict[str, Any]:
    """The results of a run by their content: all but times."""
    found = {}
    for path in sorted((folder / "results").glob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        del value["created"], value["search"]["seconds"]
        found[path.name] = value
    return found


def measure(engine: Engine, captures: Path, out: Path, **watched: int) -> tuple[Summary, Watched]:
    """Audit all updates."""
    watch = Watched(engine, **watched)
    settings = AuditSettings(seconds=None)
    return ga.audit_many(captures, out, settings=settings, engine=watch), watch


@contextlib.contextmanager
def engines() -> Iterator[dict[str, Engine]]:
    """Open, with their workers' first imports done."""
    os.environ.update(clusters.ENVIRONMENT)
    with clusters.started() as address, Ray(address) as ray, Processes(2) as processes:
        wait_until(lambda: ray.workers == len(clusters.NODES))
        yield {
            "1 process": InProcess(),
            "2 processes": processes,
            "Ray, 2 nodes of 1 CPU": ray,
        }


def warm_up(engine: Engine, captures: Path, folder: Path) -> float:
    """Audit as few updates as there are workers; its seconds."""
    started = time.monotonic()
    few = sorted(captures.iterdir())[: engine.workers]
    ga.audit_many(few, folder, settings=AuditSettings(seconds=None), engine=engine)
    return time.monotonic() - started


def run_all(results: Results, captures: Path, data: str, updates: int) -> None:
    """Every engine, then with deaths, then an interruption."""
    expected: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, engines() as opened:
        base = Path(folder)
        runs = [(name, 0) for name in opened]
        runs += [(name, max(updates // 3, 1)) for name in list(opened)[1:]]
        for number, (name, kill_at) in enumerate(runs):
            started = warm_up(opened[name], captures, base / f"warm-{number}")
            summary, watch = measure(opened[name], captures, base / str(number), kill_at=kill_at)
            found = contents(base / str(number))
            expected = expected or found
            row = {
                "run": f"{name}, a worker killed" if kill_at else name,
                "data": data,
                "updates": updates,
                "first_seconds": started,
                "seconds": summary.seconds,
                "leaks": summary.leaks,
                "recovered": sum(each.records_recovered for each in summary.rows),
                "same": sum(found.get(key) == value for key, value in expected.items()),
                "repeated": watch.repeated,
            }
            results.add("engines", row)
        half, name = updates // 2, "2 processes"
        first, _ = measure(opened[name], captures, base / "resumed", stop_at=half)
        second, _ = measure(opened[name], captures, base / "resumed")
        found = contents(base / "resumed")
        row = {
            "run": f"{name}, interrupted half way and resumed",
            "data": data,
            "updates": updates,
            "first_seconds": first.seconds,
            "seconds": second.seconds,
            "leaks": second.leaks,
            "recovered": sum(each.records_recovered for each in second.rows),
            "same": sum(found.get(key) == value for key, value in expected.items()),
            "reused": second.reused,
        }
        results.add("engines", row)


def page(rows: list[dict[str, Any]]) -> list[str]:
    """The results for readers."""
    alone = rows[0]["seconds"]
    shown = [
        [
            row["run"],
            f"{row['seconds']:.1f}",
            f"{alone / row['seconds']:.2f}" if "reused" not in row else "",
            f"{row['leaks']} of {row['updates']}",
            f"{row['recovered']}",
            f"{row['same']} of {row['updates']}",
            str(row.get("repeated", "")),
        ]
        for row in rows
    ]
    resumed = rows[-1]
    head = ["run", "seconds", "speed-up", "leaks proven", "records", "same results", "begun again"]
    lines = [
        "# Engines",
        "",
        f"{rows[0]['updates']} simulated captured updates ({rows[0]['data']}, b = {BATCH_SIZE}, "
        f"m = {WIDTH}, float64) through every engine, by `benchmarks/engines.py`. Workers are up, "
        "and have audited one update each, before the clock starts. Results are the same if all "
        "but times is equal: the JSON and the digest of the records. *Begun again*: units whose "
        "worker died.",
        "",
        *table(head, shown),
    ]
    if "reused" not in resumed:
        return lines
    return [
        *lines,
        "",
        f"The interrupted run took {resumed['first_seconds']:.1f} s; its {resumed['reused']} "
        f"finished results were not made again, and the rest took {resumed['seconds']:.1f} s.",
    ]


def main() -> None:
    """Measure, and write the page."""
    options = parser(__doc__ or "", seconds=600)
    options.add_argument("--updates", type=int, default=200, help="captured updates")
    chosen = options.parse_args()
    # As an exception it ends the cluster too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    results = Results(chosen.out / "engines.json", ["engines"], again=True)
    results.begin("engines")
    with tempfile.TemporaryDirectory() as folder:
        captures = Path(folder)
        data = simulate(captures, chosen.updates)
        run_all(results, captures, data, chosen.updates)
    results.page(page(results.rows("engines")))


if __name__ == "__main__":
    main()
