"""One line of a summary: what came of one update."""

from __future__ import annotations

from dataclasses import dataclass

from gradaudit.decoding import Count
from gradaudit.errors import InputError
from gradaudit.evidence import Status
from gradaudit.result import AuditResult

# Beside the statuses of an audit.
UNREADABLE = "unreadable"
NOT_AN_UPDATE = "not_an_update"
FAILED = "failed"
NOT_DONE = "not_done"

MEANINGS = {
    UNREADABLE: "The file could not be read or audited.",
    NOT_AN_UPDATE: "A file in the folder that is no update.",
    FAILED: "An error in gradaudit itself, or the worker died.",
    NOT_DONE: "The run ended before this update was audited.",
}


@dataclass(frozen=True)
class Row:
    """What came of one update, without any record.

    Attributes:
        name: The update's, for a person; a path below what was given.
        status: A value of `gradaudit.evidence.Status`, or a key of `MEANINGS`.
        cause: Why, in one sentence.
        remedy: What to do about it.
        records_recovered: Certified ones.
        batch_size: Distinct records, or None when unknown.
        known_approximately: Estimates of further records.
        layer: The layer that the records are the inputs of.
        attack: What was tried.
        seconds: The search took.
        created: When the audit ended, UTC.
        files: Digests of the update's files, and of the weights'.
        result: The result's JSON, from the folder of the summary; "" without one.

    Raises:
        InputError: There is no such status.
    """

    name: str
    status: str
    cause: str = ""
    remedy: str = ""
    records_recovered: Count = 0
    batch_size: Count | None = None
    known_approximately: Count = 0
    layer: str | None = None
    attack: str = ""
    seconds: float = 0.0
    created: str = ""
    files: tuple[str, ...] = ()
    result: str = ""

    def __post_init__(self) -> None:
        known = [*(status.value for status in Status), *MEANINGS]
        if self.status not in known:
            raise InputError("status", repr(self.status), "one of " + ", ".join(known))

    @property
    def audited(self) -> bool:
        """Whether there is a result."""
        return self.status not in MEANINGS

    @property
    def leak_proven(self) -> bool:
        """Whether at least one record was recovered and certified.

        Example:
            >>> Row("a", "partial").leak_proven, Row("b", "unreadable").leak_proven
            (True, False)
        """
        return self.audited and Status(self.status).leak_proven

    @classmethod
    def of_result(
        cls, name: str, result: AuditResult, *, files: tuple[str, ...], place: str
    ) -> Row:
        """The row of a result.

        Args:
            name: The update's.
            result: What the audit found.
            files: Digests of the files that it was read from.
            place: Of the result's JSON.
        """
        return cls(
            name,
            result.status.value,
            result.cause,
            result.remedy,
            result.records_recovered,
            result.batch_size,
            len(result.approximate_evidence),
            result.layer,
            result.search.attack,
            round(result.search.elapsed_seconds, 3),
            result.created,
            files,
            place,
        )
