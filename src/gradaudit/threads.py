"""How many threads torch should compute with on a machine that others use too."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gradaudit.engine.cores import usable_cores

# Variables by which a user or a parent process has settled the question.
SETTLING = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Seconds for which the machine is watched; /proc/stat counts in hundredths.
WATCHED_SECONDS = 0.2
# A core counts as free if it idled for so much of that time.
FREE_SHARE = 0.5
_STAT = Path("/proc/stat")


def choose_threads(wanted: int | None = None) -> int | None:
    """Choose torch's threads: as many as there are cores that nobody else computes on, at least 1.

    Threads of one product wait for the slowest of them, so that a thread that shares its core with
    another process slows all of them down.

    Args:
        wanted: What the user asked for, which is taken as it is.

    Returns:
        How many, or None where the environment has settled it.

    Source:
        Measured: benchmarks/results/threads.md.

    Example:
        >>> choose_threads(3)
        3
    """
    if wanted is not None:
        return wanted
    if any(os.environ.get(name) for name in SETTLING):
        return None
    cores = usable_cores()
    if cores == 1:
        return 1
    free = free_cores()
    return cores if free is None else max(1, min(cores, int(free + 1 - FREE_SHARE)))


def free_cores(stat: Path = _STAT, seconds: float = WATCHED_SECONDS) -> float | None:
    """Cores' worth of time in which the machine idles, watched while this process sleeps.

    Where the system does not say (it is not Linux), what its load average of the last minute
    leaves of its cores; None where it says neither.

    Args:
        stat: The kernel's counters.
        seconds: How long to watch.

    Example:
        >>> (free_cores() or 0.0) >= 0
        True
    """
    before = _ticks(stat)
    if before is not None:
        time.sleep(seconds)
        after = _ticks(stat)
        if after is not None and after[1] > before[1]:
            idle, whole = (late - early for late, early in zip(after, before, strict=True))
            return (os.cpu_count() or 1) * idle / whole
    try:
        return max((os.cpu_count() or 1) - os.getloadavg()[0], 0.0)
    except (AttributeError, OSError):
        return None


def _ticks(stat: Path) -> tuple[int, int] | None:
    """Idle time and all time of all cores together, since the machine started."""
    try:
        words = stat.read_text(encoding="ascii").split("\n", 1)[0].split()
        # user nice system idle iowait irq softirq steal; guests are part of user.
        numbers = [int(word) for word in words[1:9]]
        return numbers[3] + numbers[4], sum(numbers)
    except (OSError, ValueError, IndexError):
        return None
