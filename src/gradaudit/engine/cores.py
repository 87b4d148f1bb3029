"""How many cores this process may use, which may be fewer than the machine has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def usable_cores(cgroups: Path = CGROUPS) -> int:
    """Cores by the process's affinity and by its control group's quota, at least 1.

    Args:
        cgroups: Where control groups are mounted.

    Source:
        Linux's documentation of cgroup v2 (``cpu.max``) and v1 (``cpu.cfs_quota_us``).

    Example:
        >>> 1 <= usable_cores() <= os.cpu_count()
        True
    """
    # Python knows affinities on Linux alone.
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    # A container sees its own group at the mount point. Half a core still is one to work on.
    return max(1, min([cores, *(int(quota) for quota in _quotas(cgroups))]))


def _quotas(cgroups: Path) -> Iterator[float]:
    """Cores that a control group grants, of either version, where it sets a limit."""
    groups = (cgroups, cgroups / "cpu", cgroups / "cpu,cpuacct")
    for group in groups:
        texts = _read(group / "cpu.max").split() or [
            _read(group / "cpu.cfs_quota_us"),
            _read(group / "cpu.cfs_period_us"),
        ]
        try:
            quota, period = (int(text) for text in texts)
        except ValueError:  # No such file, or "max".
            continue
        if quota > 0 and period > 0:
            yield quota / period


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""
