"""Outcomes of searches that ended as a test needs it."""

from __future__ import annotations

from dataclasses import replace

from certify.settings import case

from gradaudit.evidence import Certificate, RecordEvidence
from gradaudit.linear.disaggregate import Batch
from gradaudit.linear.invert import Inversion
from gradaudit.outcome import describe


def outcome(certified: int, *, size: int = 3, stopped: str = "", found: bool = True, role="input"):
    """What becomes of a search that certified so many records of the true batch."""
    sample = case(size)
    verdict = sample.judge(sample.inputs)
    evidence = tuple(
        RecordEvidence(j < certified, estimated_error=1e-9, reason="" if j < certified else "Why.")
        for j in range(size)
    )
    verdict = replace(verdict, evidence=evidence, certificate=Certificate("layer"))
    batch = Batch(sample.inputs, verdict.gradients, sample.inputs[:, :size], True)
    inversion = Inversion(batch if found else None, size if found else 1, 1.0, stopped)
    return describe(
        sample.problem, role, inversion, verdict if found else None, ("halfspace", "spear")
    )
