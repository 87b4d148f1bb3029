"""A GPU against the CPU: the same answers, and how large a batch it takes in which time.

    python benchmarks/gpu.py                  parity, then the table, on the first CUDA device
    python benchmarks/gpu.py --device cuda:1 --largest 8000 --seconds 600
    python benchmarks/gpu.py --device cpu --largest 1000      the same program without a GPU

Batches are CIFAR-10's where GRADAUDIT_DATA names a folder with them, else Gaussian. Ends with 1
where an answer differs, and with 0 and a line that says so where there is no such device.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass

import torch
from _cases import CIFAR, Case, simulate
from _results import table

import gradaudit as ga
from gradaudit.experiments.machine import machine

# (records, neurons, type): answers of both devices must agree.
PARITY = (
    (1, 200, torch.float32),
    (8, 200, torch.float32),
    (8, 200, torch.float64),
    (20, 200, torch.float64),
    (65, 1000, torch.float64),
)
TABLE = ((20, 200), (65, 1000), (128, 1000), (210, 4000), (400, 4000), (800, 8000), (1600, 16000))
FEATURES, CLASSES = 3072, 10
# Records of both devices may differ by so many predicted errors, which differ in turn; or, where
# there is next to no error, by so much.
ERRORS, LEAST = 20.0, 1e-9


@dataclass(frozen=True)
class Answer:
    """What an audit said, and how long it took."""

    result: ga.AuditResult
    seconds: float

    @property
    def words(self) -> tuple[str, int | None, int, str]:
        """What must not depend on the device."""
        found = self.result
        kind = found.certificate.kind
        return found.status.value, found.batch_size, found.records_recovered, kind


def client(records: int, width: int, dtype: torch.dtype) -> ga.Update:
    """One client's update."""
    if os.environ.get("GRADAUDIT_DATA"):
        return simulate(Case(CIFAR, records, (width, width), dtype=dtype), 0).update
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(records, FEATURES, generator=generator, dtype=dtype)
    labels = torch.randint(CLASSES, (records,), generator=generator)
    model = ga.models.mlp(FEATURES, [width, width], CLASSES, seed=0, dtype=dtype)
    return ga.clients.FedSGD(model).update(inputs, labels)[0]


def ask(update: ga.Update, device: str, seconds: float) -> Answer:
    """One audit."""
    started = time.perf_counter()
    result = ga.audit(update, device=device, budget=ga.Budget(seconds=seconds))
    return Answer(result, time.perf_counter() - started)


def difference(here: ga.AuditResult, there: ga.AuditResult) -> tuple[float, float]:
    """Largest distance between an entry of the two answers' records, and what is allowed."""
    if here.records is None or there.records is None:
        return 0.0 if here.records is there.records else float("inf"), 0.0
    one, other = here.records.double().cpu(), there.records.double().cpu()
    nearest = torch.cdist(one, other).argmin(1)
    predicted = max((record.estimated_error or 0.0 for record in here.evidence), default=0.0)
    size = float(one.square().mean().sqrt())
    # The root mean square error of entries is predicted, not the largest.
    allowed = max(ERRORS * predicted * 4.0, LEAST * size)
    return float((one - other[nearest]).abs().max()), allowed


def parity(device: str, seconds: float) -> bool:
    """Whether both devices give the same answers; prints each."""
    agreed, rows = True, []
    for records, width, dtype in PARITY:
        update = client(records, width, dtype)
        here, there = ask(update, "cpu", seconds), ask(update, device, seconds)
        measured, allowed = difference(here.result, there.result)
        same = here.words == there.words and measured <= allowed
        agreed &= same
        rows.append(
            [
                str(records),
                str(width),
                str(dtype).removeprefix("torch."),
                f"{there.words[2]} of {there.words[1]} {there.words[3]}",
                f"{measured:.1e} (up to {allowed:.1e})",
                f"{here.seconds:.2f}",
                f"{there.seconds:.2f}",
                "the same" if same else f"DIFFERENT: {here.words} on the CPU, {there.words}",
            ]
        )
    head = ["b", "m", "type", "certified", "records differ by", "CPU s", f"{device} s", "answers"]
    print("\n".join(table(head, rows)), flush=True)
    return agreed


def large_batches(device: str, seconds: float, largest: int) -> None:
    """Print the table of batches, a line as each ends."""
    print("\n".join(table(["b", "m", "records certified", "status", "seconds", "GiB"], [])))
    for records, width in TABLE:
        if width > largest:
            continue
        update = client(records, width, torch.float64)
        if device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats(device)
        answer = ask(update, device, seconds)
        peak = (
            f"{torch.cuda.max_memory_allocated(device) / 2**30:.2f}"
            if device.startswith("cuda")
            else ""
        )
        status, _, certified, _ = answer.words
        print(
            f"| {records} | {width} | {certified} | {status} | {answer.seconds:.1f} | {peak} |",
            flush=True,
        )


def main() -> None:
    """Check, then measure."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--device", default="cuda", help="such as cuda, cuda:1 or cpu")
    options.add_argument("--seconds", type=float, default=300.0, help="time limit of one audit")
    options.add_argument("--largest", type=int, default=16_000, help="neurons, at most")
    chosen = options.parse_args()
    if chosen.device.startswith("cuda") and not torch.cuda.is_available():
        print("No CUDA device: nothing was checked.")
        return
    place = torch.device(chosen.device)
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else "the CPU"
    print(f"{name}; {machine()}\n", flush=True)
    # The first audit on a device loads its libraries, which is nobody's time.
    ask(client(4, 50, torch.float64), chosen.device, chosen.seconds)
    agreed = parity(chosen.device, chosen.seconds)
    print()
    large_batches(chosen.device, chosen.seconds, chosen.largest)
    sys.exit(0 if agreed else 1)


if __name__ == "__main__":
    main()
