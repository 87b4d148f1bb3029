"""One shard, in whatever process this is."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from gradaudit.budget import Control
from gradaudit.bulk import AuditSettings, Reading
from gradaudit.evidence import Status
from gradaudit.result import AuditResult


@dataclass(frozen=True)
class Found:
    """What a shard came back with, in plain values.

    Attributes:
        shard: Its number.
        complete: Whether it recovered the whole batch.
        records: That it proved.
        spent: Arithmetic that its search took.
        text: The result's JSON.
        arrays: The result's safetensors; empty without records.
    """

    shard: int
    complete: bool
    records: int
    spent: float
    text: bytes
    arrays: bytes

    def result(self) -> AuditResult:
        """The result itself."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.json"
            path.write_bytes(self.text)
            if self.arrays:
                path.with_suffix(".safetensors").write_bytes(self.arrays)
            return AuditResult.load(path)


def search_shard(
    path: str, reading: Reading, settings: AuditSettings, shard: int, *, control: Control
) -> Found:
    """Audit an update with one shard's seed.

    Args:
        path: The update's file.
        reading: How to read it.
        settings: How to audit it; the seed is the shard's own.
        shard: Its number.
        control: Interrupted with the run; its ceiling is what another shard completed with.

    Raises:
        InputError: The update cannot be read or audited so.
    """
    own = control.fresh(settings.budget)
    result = settings.audit(reading.load(path), own)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        result.save(file)
        beside = file.with_suffix(".safetensors")
        arrays = beside.read_bytes() if beside.exists() else b""
        text = file.read_bytes()
    complete = result.status is Status.RECOVERED
    return Found(shard, complete, result.records_recovered, own.effort.spent, text, arrays)
