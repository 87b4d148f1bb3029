"""All updates of a run in one table, as JSON and as CSV; made from the rows alone."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gradaudit.bulk.folder import write_json
from gradaudit.bulk.row import FAILED, NOT_AN_UPDATE, NOT_DONE, UNREADABLE, Row
from gradaudit.result.file import plain
from gradaudit.tensorfile import replacing
from gradaudit.version import __version__

SCHEMA, SCHEMA_VERSION = "gradaudit.bulk-summary", "1"
COLUMNS = (
    "name",
    "status",
    "leak_proven",
    "records_recovered",
    "batch_size",
    "known_approximately",
    "layer",
    "attack",
    "seconds",
    "cause",
    "remedy",
    "result",
)
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Summary:
    """What came of a run.

    Attributes:
        rows: One an update, in the order of their names; then what was no update.
        settings: How all were audited, as JSON values.
        ended: Why the run ended before all were audited; "" if it did not.
        reused: How many results were there already.
        seconds: That the run took; not in the files, which depend on the results alone.
    """

    rows: tuple[Row, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    ended: str = ""
    reused: int = 0
    seconds: float = 0.0

    @property
    def updates(self) -> int:
        """Number of updates, audited or not."""
        return sum(row.status != NOT_AN_UPDATE for row in self.rows)

    @property
    def audited(self) -> int:
        """Number of updates with a result."""
        return sum(row.audited for row in self.rows)

    @property
    def leaks(self) -> int:
        """Number of updates that a leak is proven of."""
        return sum(row.leak_proven for row in self.rows)

    def count(self, status: str) -> int:
        """Number of rows of a status.

        Args:
            status: A `Row`'s.
        """
        return sum(row.status == status for row in self.rows)

    def sentence(self) -> str:
        """The outcome, never reassuring.

        Example:
            >>> rows = Row("a", "recovered"), Row("b", "not_recovered"), Row("c", "unreadable")
            >>> Summary(rows).sentence()
            'Proven leaks in 1 of 2 audited updates. 1 could not be read or audited.'
            >>> Summary(rows[1:2]).sentence()
            'No leak was proven in 1 audited update; other attacks may do better.'
        """
        noun = "audited update" if self.audited == 1 else "audited updates"
        if self.leaks:
            text = f"Proven leaks in {self.leaks:,} of {self.audited:,} {noun}."
        elif self.audited:
            text = f"No leak was proven in {self.audited:,} {noun}; other attacks may do better."
        else:
            text = "No update was audited."
        rest = (
            (UNREADABLE, "could not be read or audited"),
            (FAILED, "failed by an error in gradaudit or a worker that died"),
            (NOT_DONE, "left to be audited"),
        )
        for status, words in rest:
            if number := self.count(status):
                text += f" {number:,} {words}."
        return text

    def to_json(self) -> dict[str, Any]:
        """All of it, as JSON values; the same rows give the same."""
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "gradaudit": __version__,
            "sentence": self.sentence(),
            "complete": not self.ended,
            "ended": self.ended,
            "totals": {
                "updates": self.updates,
                "audited": self.audited,
                "leaks_proven": self.leaks,
                "records_recovered": sum(row.records_recovered for row in self.rows),
                "statuses": dict(sorted(Counter(row.status for row in self.rows).items())),
            },
            "settings": dict(self.settings),
            "rows": [plain(asdict(row)) | {"leak_proven": row.leak_proven} for row in self.rows],
        }

    def to_csv(self) -> str:
        """The rows for a spreadsheet, in which no cell can be taken for a formula."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in self.rows:
            value = asdict(row) | {"leak_proven": row.leak_proven}
            writer.writerow([_cell(value[column]) for column in COLUMNS])
        return stream.getvalue()

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``summary.json`` and ``summary.csv``, each atomically.

        Args:
            folder: Of the run.

        Returns:
            The two files.

        Raises:
            InputError: They cannot be written.
        """
        files = folder / "summary.json", folder / "summary.csv"
        write_json(files[0], self.to_json())
        with replacing(files[1]) as temporary:
            # A spreadsheet takes CSV for UTF-8 only if it begins with this mark.
            text = self.to_csv().encode("utf-8-sig", errors="backslashreplace")
            temporary.write_bytes(text)
        return files


def _cell(value: Any) -> str:
    """A value for a spreadsheet: text that begins like a formula gets an apostrophe before it.

    Example:
        >>> _cell("=1+1"), _cell(0.25), _cell(True), _cell(None)
        ("'=1+1", '0.25', 'true', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = " ".join(str(value).split()) if isinstance(value, str) else str(value)
    # Names and causes come from files of others; quotes alone do not keep a formula from running.
    return f"'{text}" if isinstance(value, str) and str(value).startswith(_FORMULAS) else text
