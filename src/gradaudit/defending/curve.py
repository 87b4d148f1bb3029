"""What was found at all points of a grid."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from gradaudit.defending.privacy import Privacy
from gradaudit.defending.run import RecordOutcome, Run
from gradaudit.defending.setting import Setting
from gradaudit.defending.training import Trained, Training
from gradaudit.evidence import Status
from gradaudit.result.file import plain

_SUMMARY = (
    "records",
    "certified",
    "close",
    "nothing_recovered",
    "estimated_error",
    "true_error",
    "psnr",
    "distortion",
    "seconds",
    "statuses",
)
SCHEMA, SCHEMA_VERSION = "gradaudit.defense_curve", "1"


@dataclass(frozen=True)
class Point:
    """All audits of one setting.

    Attributes:
        setting: The client and its defences.
        runs: One a seed; those that are missing had not ended when the search was stopped.
        close_psnr: Records known to within this PSNR, in dB, count as close.
        privacy: What DP-SGD guarantees, where the setting has it.
        trained: Accuracy of a model trained with the same defences, on held-out records; None
            where it was not asked for.
    """

    setting: Setting
    runs: tuple[Run, ...]
    close_psnr: float
    privacy: Privacy | None = None
    trained: Trained | None = None

    @property
    def records(self) -> int:
        """Of all runs."""
        return sum(run.batch_size for run in self.runs)

    @property
    def certified(self) -> int:
        """Records certified in all runs."""
        return sum(run.certified for run in self.runs)

    @property
    def close(self) -> int:
        """Records known to within `close_psnr` in all runs, certified or not."""
        return sum(run.close(self.close_psnr) for run in self.runs)

    @property
    def nothing_recovered(self) -> bool:
        """Whether there are runs, and none certified a record or came close to one."""
        return bool(self.runs) and self.certified == 0 and self.close == 0

    @property
    def all_ended(self) -> bool:
        """Whether no audit used up its budget."""
        return all(run.status is not Status.BUDGET_EXHAUSTED for run in self.runs)

    @property
    def true_error(self) -> float | None:
        """Median over the records that were certified or are close; None without any."""
        return _median(record.true_error for record in self._known())

    @property
    def estimated_error(self) -> float | None:
        """The same of the errors that the audits expected without the truth."""
        return _median(record.estimated_error for record in self._known())

    @property
    def psnr(self) -> float | None:
        """Median over all records that the audits gave anything for; None without any."""
        return _median(record.psnr for run in self.runs for record in run.matched)

    @property
    def distortion(self) -> float | None:
        """Mean over runs."""
        return statistics.fmean(run.distortion for run in self.runs) if self.runs else None

    @property
    def seconds(self) -> float | None:
        """Median of an audit's time."""
        return _median(run.seconds for run in self.runs)

    @property
    def statuses(self) -> dict[str, int]:
        """How many audits ended how."""
        found = [run.status.value for run in self.runs]
        return {status: found.count(status) for status in dict.fromkeys(found)}

    def _known(self) -> Iterable[RecordOutcome]:
        return (
            record
            for run in self.runs
            for record in run.matched
            if record.certified or record.psnr >= self.close_psnr
        )

    def to_json(self) -> dict[str, Any]:
        """Settings, summary and runs."""
        return {
            **asdict(self.setting),
            "defense": self.setting.defense,
            **{name: getattr(self, name) for name in _SUMMARY},
            "privacy": None if self.privacy is None else asdict(self.privacy),
            "accuracy": None if self.trained is None else asdict(self.trained),
            "runs": [asdict(run) for run in self.runs],
        }


@dataclass(frozen=True)
class DefenseCurve:
    """Points, and what all of them share.

    Attributes:
        source: Where records came from.
        points: In the order in which they were asked for.
        seeds: Of the audits of each point.
        attack: As `gradaudit.audit` takes it.
        loss: The client's.
        dtype: What the client computes in.
        seconds: Time limit of an audit, or None.
        close_psnr: From this PSNR, in dB, a record counts as close.
        training: How models were trained for their accuracy, or None.
        complete: Whether every audit that was asked for ended.
        notes: What else a reader must know, such as why a figure is missing.
        versions: Of this package and what it computes with.
    """

    source: str
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    attack: str
    loss: str
    dtype: str
    seconds: float | None
    close_psnr: float
    training: Training | None = None
    complete: bool = True
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def certified(self) -> int:
        """Records certified at all points."""
        return sum(point.certified for point in self.points)

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain JSON values; infinities become None."""
        value = {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "source": self.source,
            "seeds": list(self.seeds),
            "attack": self.attack,
            "loss": self.loss,
            "dtype": self.dtype,
            "seconds": self.seconds,
            "close_psnr": self.close_psnr,
            "training": None if self.training is None else asdict(self.training),
            "complete": self.complete,
            "notes": list(self.notes),
            "versions": dict(self.versions),
            "points": [point.to_json() for point in self.points],
        }
        return {key: plain(item) for key, item in value.items()}


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
