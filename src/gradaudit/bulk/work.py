"""Auditing one update of a run, in whatever process this is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from gradaudit.budget import Control
from gradaudit.bulk.folder import Folder
from gradaudit.bulk.job import Job, key
from gradaudit.bulk.row import NOT_AN_UPDATE, UNREADABLE, Row
from gradaudit.bulk.settings import AuditSettings
from gradaudit.capture.layout import check_is_no_other
from gradaudit.capture.safetensors_file import read_safetensors
from gradaudit.capture.sniff import Format, sniff
from gradaudit.errors import GradauditError, InputError

# What captured updates are usually called: a file of such a name that cannot be read is a fault,
# also where it was only come across.
SUFFIXES = (".safetensors", ".pt", ".pth", ".npz", ".ckpt", ".bin")


def audit_job(
    job: Job, settings: AuditSettings, folder: str, *, control: Control
) -> Row | InputError:
    """Read an update, audit it, and write its result.

    Args:
        job: Which, and how to read it.
        settings: How to audit it.
        folder: Of the run.
        control: Without limits; interrupted if the run is.

    Returns:
        The row of the summary. Or why the result could not be written, which is nothing about this
        update: the next one's could not be written either.
    """
    try:
        update = job.reading.load(job.path)
        files = tuple(update.source.values())
        result = settings.audit(update, control.fresh(settings.budget))
    except GradauditError as error:
        status = NOT_AN_UPDATE if job.come_across and _is_something_else(job) else UNREADABLE
        return _refused(job, status, error)
    kept = Folder(Path(folder))
    row = Row.of_result(job.name, result, files=files, place=kept.place(job.stem))
    if control.interrupted:
        # What it has found is not what it would have.
        return row
    try:
        kept.keep(
            job.stem,
            key(files, job.reading, settings),
            row,
            result,
            records=settings.keep_records,
        )
    except InputError as error:
        return error
    return row


def refused_at_once(job: Job) -> Row | None:
    """The row of a file whose first bytes show that it is none that can be read, or None.

    It needs no worker, which takes seconds to start.

    Args:
        job: Which.
    """
    try:
        sniff(job.path)
    except InputError as error:
        status = NOT_AN_UPDATE if job.come_across and _is_something_else(job) else UNREADABLE
        return _refused(job, status, error)
    return None


def _refused(job: Job, status: str, error: GradauditError) -> Row:
    """A row that says why, and not where the auditor keeps the file."""
    if not isinstance(error, InputError):
        return Row(job.name, status, str(error))
    where = "" if error.argument == job.path else f"{_without_folders(job, error.argument)}: "
    cause = f"{where}found {_without_folders(job, error.found)}, expected {error.expected}."
    return Row(job.name, status, cause[0].upper() + cause[1:], error.remedy)


def _without_folders(job: Job, text: str) -> str:
    for path in job.files:
        text = text.replace(path, Path(path).name)
    return text


def _is_something_else(job: Job) -> bool:
    """Whether a file that cannot be read never was an update, as far as it can be told."""
    try:
        kind = sniff(job.path)
    except InputError:
        return not job.path.lower().endswith(SUFFIXES)
    if kind is Format.SAFETENSORS:
        with suppress(GradauditError):
            contents = read_safetensors(Path(job.path))
            try:
                check_is_no_other(job.path, contents.metadata)
            except InputError:
                return True
    return False
