"""Auditing many updates: what is missing is audited, and all is summarised."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from gradaudit.budget import Budget, Control, Progress
from gradaudit.bulk.find import Found, find
from gradaudit.bulk.folder import Folder
from gradaudit.bulk.job import Job, key
from gradaudit.bulk.lock import only_run
from gradaudit.bulk.reading import Reading
from gradaudit.bulk.row import FAILED, NOT_DONE, Row
from gradaudit.bulk.settings import AuditSettings
from gradaudit.bulk.summary import Summary
from gradaudit.bulk.work import audit_job, refused_at_once
from gradaudit.engine import Engine, InProcess, Unit
from gradaudit.errors import InputError
from gradaudit.tensorfile import check_place, sha256_of

INTERRUPTED = "interrupted"
# Between two reports of the run as a whole.
BEAT_SECONDS = 2.0
TIME_IS_UP = "the time for all updates was up"


def audit_many(
    updates: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    settings: AuditSettings | None = None,
    reading: Reading | None = None,
    engine: Engine | None = None,
    control: Control | None = None,
    total_seconds: float | None = None,
    again: bool = False,
) -> Summary:
    """Audit many captured updates, and keep each one's result as soon as there is one.

    A result is finished once the content of the update's files, how they are read, the settings
    and gradaudit's version are those that it was made with; such results are not made again. What
    cannot be read is a row of the summary, and ends nothing.

    Args:
        updates: Folders, patterns such as ``"captures/*.safetensors"``, manifests, and files.
        out: The folder for ``results``, ``rows``, ``summary.json`` and ``summary.csv``; made if
            need be.
        settings: How every update is audited.
        reading: What is said about all captured files; a manifest says more about each.
        engine: Where audits run; open. By default, one after another in this process.
        control: To watch and interrupt the run; its budget is not looked at.
        total_seconds: After so long the run is interrupted: audits under way are given up, and a
            later run goes on.
        again: Whether to audit again what is finished.

    Returns:
        The summary, which is in the folder too.

    Raises:
        InputError: Nothing is named, a setting cannot be used, the folder cannot be written to or
            is in use by another run.

    Example:
        >>> import tempfile, torch
        >>> from gradaudit.update import Update
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     weights = {"fc.weight": torch.zeros(3, 2), "fc.bias": torch.zeros(3)}
        ...     gradient = {"fc.weight": torch.ones(3, 2), "fc.bias": torch.ones(3)}
        ...     Update(weights, gradient).save(f"{folder}/captures/a.safetensors")
        ...     audit_many(f"{folder}/captures", f"{folder}/audits").updates
        1
    """
    words = [updates] if isinstance(updates, str | os.PathLike) else list(updates)
    settings, reading = settings or AuditSettings(), reading or Reading()
    settings.check()
    if total_seconds is not None and not total_seconds > 0:
        raise InputError("total_seconds", repr(total_seconds), "a positive number, or None")
    control = control or Control(Budget(None, None))
    folder = Folder(Path(out))
    started = time.monotonic()
    found = find(words, reading, folder.path)
    _check_apart(found, folder.path)
    check_place("--out", folder.path / "summary.json")
    with suppress(FileExistsError):
        folder.path.mkdir(parents=True)
    with only_run(folder.path):
        folder.clean()
        run = _Run(folder, settings, found, control.fresh(Budget(None, None)), total_seconds)
        if not again:
            run.take_what_is_finished()
        reused = len(run.rows)
        run.audit_the_rest(engine or InProcess())
        rows = tuple(run.rows.get(job.name) or _left(job) for job in found.jobs)
        summary = Summary(
            rows + found.others,
            settings.to_json(),
            run.ended if any(row.status == NOT_DONE for row in rows) else "",
            reused,
            time.monotonic() - started,
        )
        summary.write(folder.path)
    return summary


class _Run:
    """The rows so far, and what is told about them meanwhile."""

    def __init__(
        self,
        folder: Folder,
        settings: AuditSettings,
        found: Found,
        control: Control,
        total_seconds: float | None,
    ) -> None:
        self.rows: dict[str, Row] = {}
        self._folder, self._settings, self._jobs = folder, settings, found.jobs
        self._listener, self._control = control.listener, control
        self._total_seconds, self._time_is_up = total_seconds, threading.Event()
        self._started = time.monotonic()
        self._begun = len(found.jobs)
        control.listener = self._hear

    @property
    def ended(self) -> str:
        """Why the run was ended, if it was."""
        return TIME_IS_UP if self._time_is_up.is_set() else INTERRUPTED

    def take_what_is_finished(self) -> None:
        """Find the results that need not be made again."""
        # One file of weights may be that of all updates.
        digests: dict[str, str] = {}
        for job in self._jobs:
            if self._control.interrupted:
                return
            row = self._folder.finished(job.stem, partial(self._key, job, digests))
            if row is not None:
                self.rows[job.name] = replace(row, name=job.name)

    def audit_the_rest(self, engine: Engine) -> None:
        """Audit what is missing; each result is on the disk when its row is known."""
        missing = {}
        for job in self._jobs:
            if job.name in self.rows or self._control.interrupted:
                continue
            row = refused_at_once(job)
            if row is None:
                missing[job.name] = job
            else:
                self.rows[job.name] = row
        self._begun = len(missing)
        self._started = time.monotonic()
        settings, folder = self._settings, os.path.abspath(self._folder.path)
        units = [
            Unit(
                name,
                audit_job,
                {"job": job, "settings": settings, "folder": folder},
                controlled=True,
            )
            for name, job in missing.items()
        ]
        clock = self._clock()
        over = threading.Event()
        # Units report when they end, which may take minutes.
        heart = threading.Thread(target=self._beat, args=(over,), daemon=True)
        self._hear(Progress(""))
        heart.start()
        try:
            for done in engine.run(units, self._control):
                if isinstance(done.value, InputError):
                    raise done.value
                row = done.value or Row(done.key, FAILED, done.failure)
                self.rows[done.key] = row
                self._hear(Progress(""))
        finally:
            over.set()
            heart.join()
            if clock is not None:
                clock.cancel()

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(BEAT_SECONDS):
            self._hear(Progress(""))

    def _clock(self) -> threading.Timer | None:
        if self._total_seconds is None:
            return None

        def end() -> None:
            self._time_is_up.set()
            self._control.interrupt()

        clock = threading.Timer(self._total_seconds, end)
        clock.daemon = True
        clock.start()
        return clock

    def _key(self, job: Job, digests: dict[str, str]) -> str:
        for path in job.files:
            digests[path] = digests.get(path) or sha256_of(path)
        return key([digests[path] for path in job.files], job.reading, self._settings)

    def _hear(self, progress: Progress) -> None:
        """How far the run is; of the search under way, only that it goes on."""
        if self._listener is None:
            return
        spent = time.monotonic() - self._started
        rows = list(self.rows.values())
        leaks = sum(row.leak_proven for row in rows)
        noun = "proven leak" if leaks == 1 else "proven leaks"
        self._listener(
            Progress(
                f"{len(rows):,} of {len(self._jobs):,}, {leaks:,} {noun}",
                elapsed_seconds=spent,
                seconds_left=self._seconds_left(spent, len(self._jobs) - len(rows)),
            )
        )

    def _seconds_left(self, spent: float, missing: int) -> float | None:
        audited = self._begun - missing
        return spent / audited * missing if audited else None


def _left(job: Job) -> Row:
    return Row(job.name, NOT_DONE, "The run ended before it; the same command goes on with it.")


def _check_apart(found: Found, out: Path) -> None:
    """Refuse to write where something is read."""
    place = os.path.realpath(out)
    for job in found.jobs:
        for path in filter(None, (job.path, job.reading.weights)):
            real = os.path.realpath(path)
            if real == place or Path(real).is_relative_to(place):
                raise InputError(
                    "--out", f"{str(out)!r}, in which {path!r} is", "a folder of its own"
                )
