"""Whether two results say the same: bit for bit, in their verdict, or not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from gradaudit.result.file import ARRAYS
from gradaudit.result.result import AuditResult

# Two recoveries of one record may each be off by its estimated error, a root mean square that is
# estimated itself. Without an estimate: what is far above the rounding of float64, relative to the
# record, and far below what tells two records apart.
_ERRORS, _RELATIVE = 3.0, 1e-6
# Sentences may be reworded in any version; the others are of the run, not of what it found.
_SENTENCES = {"cause", "remedy", "summary", "assumptions", "explanation", "statement", "meaning"}
_SENTENCES |= {"reason", "setting"}
_OF_THE_RUN = {"schema_version", "source", "created", "request", "arrays", "preprocessing"}
_OF_THE_SEARCH = {"seconds", "device", "versions", "machine", "threads", "hurried"}


class Sameness(Enum):
    """How alike two results are."""

    IDENTICAL = "identical"
    SAME_VERDICT = "same_verdict"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Repetition:
    """What came of comparing a result with an earlier one of the same update.

    Attributes:
        sameness: How alike they are.
        compared_records: Certified records that were compared; 0 where either result is without
            its arrays.
        largest_difference: Of an entry of such a record, in network inputs; None where none were
            compared or they could not be paired.
        differences: What differs in the verdict, in words.
        circumstances: What was computed with another version or on another machine, in words.
        hurried: Whether the clock or an interruption ended part of either search: that it repeats
            cannot then be promised.
    """

    sameness: Sameness
    compared_records: int
    largest_difference: float | None
    differences: tuple[str, ...]
    circumstances: tuple[str, ...]
    hurried: bool

    def statement(self) -> str:
        """The comparison in a sentence or two."""
        return " ".join(filter(None, (self._found(), self._circumstances(), self._hurry())))

    def _found(self) -> str:
        records = "record" if self.compared_records == 1 else "records"
        if self.sameness is Sameness.IDENTICAL:
            what = f"{self.compared_records:,} certified {records}, " * (self.compared_records > 0)
            return f"The same result, bit for bit: {what}evidence and verdict."
        if self.sameness is Sameness.DIFFERENT:
            return f"A different result: {'; '.join(self.differences)}."
        if self.largest_difference is None:
            return "The same verdict; no certified records were there to be compared."
        return (
            f"The same verdict; {self.compared_records:,} certified {records} differ by at most "
            f"{self.largest_difference:.1g}."
        )

    def _circumstances(self) -> str:
        return f"Then and now: {', '.join(self.circumstances)}." if self.circumstances else ""

    def _hurry(self) -> str:
        if not self.hurried or self.sameness is Sameness.IDENTICAL:
            return ""
        return (
            "The clock or an interruption ended part of a search: that such a result repeats "
            "cannot be promised."
        )


def compare_results(first: AuditResult, second: AuditResult) -> Repetition:
    """Compare two results of one update.

    Identical are results whose arrays agree in every bit, and whose verdict and evidence in every
    number; sentences, times, versions and places are not looked at. The verdict is the same if the
    status, the layer, the batch size, the kind of proof and the certified records with their
    classes are: the order of records means nothing, and each may differ by what its estimated
    error allows.

    Args:
        first: The earlier one, from a file or not, with or without its arrays.
        second: The later one.

    Example:
        >>> from gradaudit.evidence import Status
        >>> result = AuditResult(Status.NOT_RECOVERED, "The rank is full.", "Wait.")
        >>> compare_results(result, result).statement()
        'The same result, bit for bit: evidence and verdict.'
    """
    differences = list(_verdicts(first, second))
    pair = _certified(first), _certified(second)
    compared, largest = 0, None
    if pair[0] is not None and pair[1] is not None and len(pair[0]) == len(pair[1]):
        largest, excess = _distances(first, second)
        compared = len(pair[0])
        if excess > 1.0:
            differences.append(f"certified records differ by up to {largest:.1g}")
    if _numbers(first) == _numbers(second) and _same_arrays(first, second):
        sameness = Sameness.IDENTICAL
    else:
        sameness = Sameness.DIFFERENT if differences else Sameness.SAME_VERDICT
    return Repetition(
        sameness=sameness,
        compared_records=compared,
        largest_difference=largest if compared else None,
        differences=tuple(differences),
        circumstances=tuple(_circumstances(first, second)),
        hurried=bool(first.search.hurried or second.search.hurried),
    )


def _verdicts(first: AuditResult, second: AuditResult) -> list[str]:
    """What differs between two verdicts, in words."""

    def classes(result: AuditResult) -> Counter[tuple[int | None, int | None]]:
        return Counter((r.label, r.copies) for r in result.evidence if r.recovered)

    pairs: dict[str, tuple[Any, Any]] = {
        "the status": (first.status.value, second.status.value),
        "the layer": (first.layer, second.layer),
        "the batch size": (first.batch_size, second.batch_size),
        "the number of certified records": (first.records_recovered, second.records_recovered),
        "the kind of proof": (first.certificate.kind, second.certificate.kind),
    }
    found = [
        f"{name} was {then!r} and is {now!r}" for name, (then, now) in pairs.items() if then != now
    ]
    if not found and classes(first) != classes(second):
        found.append("the certified records' classes or copies are others")
    return found


def _numbers(result: AuditResult) -> Any:
    """Verdict and evidence without sentences and without what is of the run."""
    value = result.to_json()
    value = {key: item for key, item in value.items() if key not in _OF_THE_RUN}
    search = value["search"]
    value["search"] = {key: item for key, item in search.items() if key not in _OF_THE_SEARCH}
    return _without_sentences(value)


def _without_sentences(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_sentences(item) for k, item in value.items() if k not in _SENTENCES}
    return [_without_sentences(item) for item in value] if isinstance(value, list) else value


def _same_arrays(first: AuditResult, second: AuditResult) -> bool:
    """Whether all arrays that both could have agree in every bit."""
    if _is_bare(first) or _is_bare(second):
        return True
    for name in ARRAYS:
        then, now = getattr(first, name), getattr(second, name)
        if (then is None) != (now is None):
            return False
        if then is not None and not _same_bits(then, now):
            return False
    return True


def _is_bare(result: AuditResult) -> bool:
    """Whether a result was kept without the arrays that it had."""
    expected = bool(result.evidence or result.approximate_evidence)
    return expected and result.records is None and result.approximate_records is None


def _same_bits(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    # By bytes: a nan equals itself, and 0.0 is not -0.0.
    then, now = (np.ascontiguousarray(t.detach().cpu().numpy()) for t in (first, second))
    return then.tobytes() == now.tobytes()


def _certified(result: AuditResult) -> Float[Tensor, "b n"] | None:
    """The certified records, if the arrays are there."""
    if result.records is None or not result.records_recovered:
        return None
    return result.records[torch.tensor(result.recovered)].double().cpu()


def _distances(first: AuditResult, second: AuditResult) -> tuple[float, float]:
    """Largest difference of paired records, and largest part of what is allowed for one."""
    then, now = _certified(first), _certified(second)
    assert then is not None and now is not None  # noqa: S101, PT018 - the caller looked
    if then.shape[1] != now.shape[1]:
        return float("inf"), float("inf")
    distances = torch.cdist(then, now, compute_mode="donot_use_mm_for_euclid_dist")
    largest = torch.finfo(torch.float64).max
    distances = distances.nan_to_num(nan=largest, posinf=largest)
    rows, columns = linear_sum_assignment(distances.numpy())
    difference = (then[rows] - now[columns]).abs()
    size = then.shape[1] ** 0.5
    allowed = _ERRORS * (_errors(first, then)[rows] + _errors(second, now)[columns])
    excess = difference.square().sum(1).sqrt() / size / allowed
    return float(difference.max()), float(excess.nan_to_num(nan=torch.inf).max())


def _errors(result: AuditResult, records: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
    """Root mean square error to expect of each certified record."""
    usual = _RELATIVE * records.square().mean(1).sqrt() + torch.finfo(torch.float64).tiny
    stated = [evidence.estimated_error for evidence in result.evidence if evidence.recovered]
    return torch.maximum(usual, torch.tensor([error or 0.0 for error in stated]).double())


def _circumstances(first: AuditResult, second: AuditResult) -> list[str]:
    """What of versions, machine and threads is another one; only what both say."""

    def known(result: AuditResult) -> dict[str, str]:
        search = result.search
        threads = {"threads": str(search.threads)} if search.threads else {}
        return {**search.versions, **search.machine, "device": search.device, **threads}

    then, now = known(first), known(second)
    return [
        f"{name} {then[name]} and {now[name]}"
        for name in then
        if name in now and then[name] != now[name]
    ]
