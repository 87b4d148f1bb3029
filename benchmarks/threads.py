"""Seconds of an audit with one thread and with two, on a quiet machine and beside busy processes.

Every setting is a process of its own, with several runs; minima are what to compare.

    GRADAUDIT_DATA=DIR python benchmarks/threads.py [--repeats 3]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from _cases import CIFAR, Case, simulate
from _measure import measure, warm_up
from _results import Results, parser, table

CASES = {
    "b = 20, m = 200": Case(CIFAR, 20, (200, 200)),
    "b = 65, m = 1000": Case(CIFAR, 65, (1000, 1000)),
}
BUSY = (0, 1)
# Threads, and how those that wait do so: asleep, as the command line has it, or spinning, OpenMP's
# default. A single one waits for nobody.
SETTINGS = ((1, "passive"), (2, "passive"), (2, "active"))
SPIN = "while True: pass"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute all the time."""
    others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def run(case: str, threads: int, policy: str, repeats: int) -> dict[str, Any]:
    """Some audits in a new process."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), "--one", case, str(threads), str(repeats)],
        env=os.environ | {"OMP_WAIT_POLICY": policy, "OMP_NUM_THREADS": str(threads)},
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def one(case: str, threads: int, repeats: int) -> dict[str, Any]:
    """The audits in this process, after a small one."""
    torch.set_num_threads(threads)
    sent = simulate(CASES[case], 0)
    warm_up()
    rows = [measure(sent, seed=0, seconds=600.0) for _ in range(repeats)]
    return {
        "seconds": [row["seconds"] for row in rows],
        "core_seconds": [row["core_seconds"] for row in rows],
        "certified": min(row["certified"] for row in rows),
    }


def page(rows: list[dict[str, Any]]) -> list[str]:
    """The results for readers."""
    shown = [
        [
            row["case"],
            str(row["busy"]),
            str(row.get("load", "")),
            str(row["threads"]),
            ("asleep" if row["policy"] == "passive" else "spinning") if row["threads"] > 1 else "",
            f"{min(row['seconds']):.2f}",
            f"{statistics.median(row['seconds']):.2f}",
            f"{min(row['core_seconds']):.2f}",
        ]
        for row in rows
    ]
    head = ["audit", "busy processes", "load average", "threads", "wait", "least seconds", "median"]
    return [
        "# Threads",
        "",
        "Seconds of one audit of a CIFAR-10 batch (float64, two hidden layers of m neurons), by "
        "`benchmarks/threads.py`, with threads that wait asleep (`OMP_WAIT_POLICY=PASSIVE`, which "
        "the command line sets) or spinning (OpenMP's default), beside processes that compute all "
        "the time, on top of what else the machine was doing, which the load average shows: "
        "processes that ran or waited for one of its cores.",
        "",
        *table([*head, "least core seconds"], shown),
    ]


def main() -> None:
    """Measure what is not known yet, and write the page."""
    options = parser(__doc__ or "", seconds=600)
    options.add_argument("--repeats", type=int, default=3, help="runs of each setting")
    options.add_argument("--cases", nargs="*", default=list(CASES), help="some of the cases")
    options.add_argument("--one", nargs=3, help="case, threads, runs: in this process")
    chosen = options.parse_args()
    if chosen.one:
        case, threads, repeats = chosen.one
        print(json.dumps(one(case, int(threads), int(repeats))))
        return
    results = Results(chosen.out / "threads.json", ["threads"], again=chosen.again)
    results.begin("threads")
    for case in chosen.cases:
        for count in BUSY:
            with busy(count):
                for threads, policy in SETTINGS:
                    named = {"case": case, "busy": count, "threads": threads, "policy": policy}
                    if any(named.items() <= row.items() for row in results.rows("threads")):
                        continue
                    done = run(case, threads, policy, chosen.repeats)
                    # Of the last minute, the run's own threads included.
                    named["load"] = round(os.getloadavg()[0], 1)
                    results.add("threads", named | done)
    results.page(page(results.rows("threads")))


if __name__ == "__main__":
    main()
