"""The files of an earlier audit: looked for by name, and known by their digests."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import cast, get_args

from gradaudit.capture import Contains, load_update
from gradaudit.errors import InputError
from gradaudit.result import AuditResult
from gradaudit.result.request import CapturedFile, CaptureRequest
from gradaudit.tensorfile import check_file, sha256_of
from gradaudit.update import GradientStep, Update, step_from_text

Place = str | PathLike[str]


def find_update(
    result: AuditResult,
    capture: CaptureRequest,
    folder: Path,
    update: Place | None = None,
    weights: Place | None = None,
) -> Update:
    """Find the files of an audit, and read the update that it was of.

    Args:
        result: The audit's.
        capture: How it read them.
        folder: Where to look first; then in the current folder.
        update: The file with what was observed, if it is known.
        weights: The file with the weights before, if it is known.

    Raises:
        InputError: They are not there, or they are not what was audited.
    """
    path = _find("update", capture.update, folder) if update is None else Path(update)
    recorded = capture.update is not None and _is(path, capture.update)
    before = None if weights is None else Path(weights)
    # Another file of the same update, as `Update.save` writes it, has the weights in it.
    if before is None and capture.weights is not None and recorded:
        before = _find("weights", capture.weights, folder)
    contains = capture.contains if recorded and capture.contains else "auto"
    if contains not in get_args(Contains):
        expected = ", ".join(map(repr, get_args(Contains)))
        raise InputError("request.capture.contains", repr(contains[:80]), f"one of {expected}")
    step = step_from_text(capture.step, "request.capture.step")
    observed = load_update(
        path,
        before,
        contains=cast(Contains, contains),
        learning_rate=step.learning_rate if isinstance(step, GradientStep) else None,
        training=None if isinstance(step, GradientStep) else step,
        noise=capture.noise,
        preprocessing=capture.preprocessing,
    )
    if observed.sha256() != result.update_sha256:
        raise InputError(
            "update",
            f"{str(path)!r}, an update of other content",
            f"the one that was audited, of SHA-256 {result.update_sha256[:16]!r}...",
            "give the files that the audit read as update=FILE and weights=FILE",
        )
    return observed


def _find(argument: str, file: CapturedFile | None, folder: Path) -> Path:
    """A recorded file, beside the result or in the current folder."""
    if file is None:
        raise InputError(
            argument,
            "a result of an update that no file held",
            "a file of that update",
            f"save it with Update.save, and give it as {argument}=FILE",
        )
    # Whoever wrote the result must not choose what is read elsewhere.
    if Path(file.name).name != file.name or file.name in ("", ".", "..") or "\0" in file.name:
        raise InputError(
            argument, f"{file.name[:80]!r} in the result", "a file name without a folder"
        )
    places = [folder / file.name, Path(file.name)]
    there = [place for place in places if place.is_file()]
    for place in there:
        if _is(place, file):
            return place
    # A result's own records may have the update's name.
    other = "another file of that name (the records of a result?)"
    found = f"{str(there[0])!r}, {other}" if there else f"no {file.name!r}"
    raise InputError(
        argument,
        found,
        "the file that was audited, beside the result or in the current folder",
        f"give it as {argument}=FILE",
    )


def _is(path: Path, file: CapturedFile) -> bool:
    check_file(path)
    return sha256_of(path) == file.sha256
