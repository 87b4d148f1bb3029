"""What the demonstration leaves besides an audit's files: a picture and a redacted report."""

from __future__ import annotations

from pathlib import Path

from gradaudit.report import record_grid, write_report
from gradaudit.result import AuditResult
from gradaudit.truth import Truth


def leave_pictures(result_file: Path, truth_file: Path, folder: Path) -> list[Path]:
    """Write the recovered images beside the originals, and a report as one would pass it on.

    Args:
        result_file: The audit's result, with its arrays.
        truth_file: The originals.
        folder: Where to.

    Returns:
        The files written; without recovered records, the report alone.

    Raises:
        InputError: A file cannot be read or written.
    """
    result = AuditResult.load(result_file)
    redacted, picture = picture_files(folder)
    written = [redacted]
    write_report(result, redacted)
    if result.records is not None and result.preprocessing is not None:
        record_grid(result.records, result.preprocessing, picture, truth=Truth.load(truth_file))
        written.append(picture)
    else:
        # That of an earlier run would be taken for this one's.
        picture.unlink(missing_ok=True)
    return written


def picture_files(folder: Path) -> tuple[Path, Path]:
    """The redacted report and the picture that `leave_pictures` writes."""
    return folder / "report-redacted.html", folder / "records.png"
