"""One audit, timed, weighed, and compared with the truth afterwards."""

from __future__ import annotations

import ctypes
import gc
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from _cases import CIFAR, Case, Sent, simulate

import gradaudit as ga

# A certified record is false when an entry is further than this from every record of the batch.
# Twins differ by more; the rounding of the weakest records that count as present gives less.
FALSE_ABOVE = {torch.float64: 1e-4, torch.float32: 1e-2}


def measure(
    sent: Sent,
    *,
    seed: int,
    seconds: float,
    attack: str = "auto",
    listener: Callable[[ga.Progress], None] | None = None,
    core_seconds: float = math.inf,
) -> dict[str, Any]:
    """Audit one client's update; what came of it, as JSON.

    Args:
        sent: The update.
        seed: Of the audit.
        seconds: Its time budget, by the clock.
        attack: Which.
        listener: Told of the progress.
        core_seconds: After so many the audit is interrupted, whatever the clock says.
    """

    def listen(progress: ga.Progress) -> None:
        if listener is not None:
            listener(progress)
        if time.process_time() - worked > core_seconds:
            control.interrupt()

    memory = PeakMemory()
    control = ga.Control(ga.Budget(seconds=seconds), listen)
    started, worked = time.perf_counter(), time.process_time()
    result = ga.audit(sent.update, attack=attack, seed=seed, control=control)
    spent, work = time.perf_counter() - started, time.process_time() - worked
    return {
        "seed": seed,
        "limit_seconds": seconds,
        "status": result.status.value,
        "layer": result.layer,
        "certificate": result.certificate.kind,
        "present": int(sent.signals.sum()),
        "without_signal": int((~sent.signals).sum()),
        "certified": result.records_recovered,
        **_against_truth(result, sent, _false_above(sent.update)),
        "seconds": round(spent, 3),
        # Of all threads; what else the machine does adds little to these.
        "core_seconds": round(work, 3),
        "peak_mib": memory.mib(),
        "counters": result.search.counters,
        "phases": {name: round(value, 3) for name, value in result.search.seconds.items()},
    }


def warm_up() -> None:
    """Let libraries load what they need on first use, which is nobody's time."""
    measure(simulate(Case(CIFAR, 4, (50, 50)), 0), seed=0, seconds=10.0)


def _against_truth(result: ga.AuditResult, sent: Sent, false_above: float) -> dict[str, Any]:
    """Certified records that are right or false; errors, mean PSNR and labels of the right ones."""
    expected = sent.truth.inputs.flatten(1).shape[1]
    if result.records is None or result.records.shape[1] != expected:
        # Nothing, or the inputs of another layer than the one this is about.
        return {
            "right": 0,
            "false": 0,
            "reconstructed": 0,
            "max_error": None,
            "psnr": None,
            "labels_right": 0,
        }
    labels = torch.tensor([-1 if label is None else label for label in result.labels])
    pairs = ga.metrics.compare(
        result.records,
        sent.truth,
        labels=labels,
        up_to_scale=not result.scale_identified,
        structural=False,
    ).pairs
    certified = [pair for pair in pairs if result.recovered[pair.record]]
    right = [pair for pair in certified if pair.max_abs_error <= false_above]
    seen = {int(sent.group[pair.truth]) for pair in right}
    return {
        "right": sum(bool(sent.signals[group]) for group in seen),
        "false": result.records_recovered - len(right),
        # Certified or not.
        "reconstructed": sum(pair.max_abs_error <= false_above for pair in pairs),
        "max_error": max((pair.max_abs_error for pair in right), default=None),
        "psnr": statistics.fmean(pair.psnr for pair in right) if right else None,
        "labels_right": sum(bool(pair.label_correct) for pair in right),
    }


def _false_above(update: ga.Update) -> float:
    return max(FALSE_ABOVE[tensor.dtype] for tensor in update.observed.values())


class PeakMemory:
    """What the process's peak resident memory rises by from here on (Linux; else None)."""

    def __init__(self) -> None:
        self._before: int | None = None
        if sys.platform == "linux":
            gc.collect()
            # What was freed must not serve unnoticed a second time.
            ctypes.CDLL(None).malloc_trim(0)
            with open("/proc/self/clear_refs", "w", encoding="ascii") as stream:
                stream.write("5")  # resets the peak
            self._before = _kib("VmRSS")

    def mib(self) -> float | None:
        """MiB that were added at the peak."""
        return None if self._before is None else round((_kib("VmHWM") - self._before) / 1024, 1)


def _kib(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith(field))
