"""The folder of a run: where results lie, and which of them are finished."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gradaudit.bulk.lock import OWNER
from gradaudit.bulk.row import Row
from gradaudit.decoding import check_keys, decode
from gradaudit.errors import GradauditError, InputError
from gradaudit.result import AuditResult
from gradaudit.result.file import plain
from gradaudit.tensorfile import replacing, sha256_of

RESULTS, ROWS = "results", "rows"
# Ends of the names of pages, without and with the records. A plus is in no result's own name.
REDACTED, SHOWN = ".html", "+records.html"
SCHEMA, SCHEMA_VERSION = "gradaudit.bulk-row", "1"
MAX_ROW_BYTES = 2**20


@dataclass(frozen=True)
class Folder:
    """Where a run's results are.

    ``results`` has each update's result, a JSON and its arrays. ``rows`` has what ties it to the
    update: the key of all that determined it, the digests of the result's files, and its row of the
    summary. The row is written last, so that a result without one is not finished.

    Attributes:
        path: The folder.
    """

    path: Path

    def result(self, stem: str) -> Path:
        """Of a result's JSON."""
        return self.path / RESULTS / f"{stem}.json"

    def pages(self, stem: str) -> list[Path]:
        """Of the pages that there may be of a result: they are made from it."""
        return [self.path / RESULTS / f"{stem}{suffix}" for suffix in (REDACTED, SHOWN)]

    def place(self, stem: str) -> str:
        """Of a result's JSON, from the folder itself."""
        return f"{RESULTS}/{stem}.json"

    def keep(self, stem: str, key: str, row: Row, result: AuditResult, *, records: bool) -> None:
        """Write a result and its row.

        Args:
            stem: Of its files.
            key: Of what determined it.
            row: Of the summary.
            result: The result.
            records: Whether to write the arrays.

        Raises:
            InputError: The folder cannot be written to.
        """
        target = self.result(stem)
        try:
            for page in self.pages(stem):
                page.unlink(missing_ok=True)
            result.save(target, keep_records=records)
            files = {target.name: sha256_of(target)}
            arrays = target.with_suffix(".safetensors")
            if json.loads(target.read_text(encoding="utf-8"))["arrays"] is None:
                # Of an earlier audit, which kept its records or found some.
                arrays.unlink(missing_ok=True)
            else:
                files[arrays.name] = sha256_of(arrays)
            value = {
                "schema": SCHEMA,
                "schema_version": SCHEMA_VERSION,
                "key": key,
                "files": files,
                "row": plain(asdict(row)),
            }
            write_json(self._row(stem), value)
        except OSError as error:
            raise InputError(
                str(target), error.strerror or str(error), "a place that can be written to"
            ) from error

    def finished(self, stem: str, key_of: Callable[[], str]) -> Row | None:
        """The row of a finished result, if that is what the update needs.

        Args:
            stem: Of its files.
            key_of: Gives the key that it must have; called only if there is a result at all.
        """
        path = self._row(stem)
        try:
            if not path.is_file() or path.stat().st_size > MAX_ROW_BYTES:
                return None
            value = json.loads(path.read_text(encoding="utf-8"))
            check_keys(value, ["schema", "schema_version", "key", "files", "row"], path.name)
            if (value["schema"], value["schema_version"]) != (SCHEMA, SCHEMA_VERSION):
                return None
            row = decode(Row, value["row"], path.name, null_is_infinite=False)
            files = decode(dict[str, str], value["files"], path.name)
            names = {self.result(stem).name, self.result(stem).with_suffix(".safetensors").name}
            if not files or not set(files) <= names or row.result != self.place(stem):
                return None
            if value["key"] != key_of():
                return None
            kept = self.path / RESULTS
            whole = all(sha256_of(kept / name) == digest for name, digest in files.items())
            return row if whole else None
        # Whatever is wrong with it: the update is audited again, and this is replaced.
        except (OSError, ValueError, TypeError, KeyError, RecursionError, GradauditError):
            return None

    def clean(self) -> None:
        """Remove what a killed run left half written: it may hold records."""
        patterns = (f"{RESULTS}/.*", f"{ROWS}/.*", ".summary.*.*", f".{OWNER}.*")
        for path in (path for pattern in patterns for path in self.path.glob(pattern)):
            with suppress(OSError):
                path.unlink()

    def _row(self, stem: str) -> Path:
        return self.path / ROWS / f"{stem}.json"


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write JSON, atomically; as results are written.

    Args:
        path: The file.
        value: JSON values.

    Raises:
        InputError: It cannot be written.
    """
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    with replacing(path) as temporary:
        # A file name that is no UTF-8 holds lone surrogates, which this writes as JSON escapes.
        temporary.write_bytes(text.encode("utf-8", errors="backslashreplace"))
