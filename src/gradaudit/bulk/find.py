"""From folders, patterns, manifests and files to the updates of a run."""

from __future__ import annotations

import codecs
import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradaudit.bulk.faults import Faults
from gradaudit.bulk.job import Job
from gradaudit.bulk.manifest import read_manifest
from gradaudit.bulk.naming import stems
from gradaudit.bulk.reading import Reading
from gradaudit.bulk.row import NOT_AN_UPDATE, UNREADABLE, Row
from gradaudit.capture.sniff import sniff
from gradaudit.errors import InputError

_WILD = frozenset("*?[")


@dataclass(frozen=True)
class Found:
    """What there is to audit.

    Attributes:
        jobs: The updates, in the order of their names.
        others: What was come across and is certainly none, with the reason.
    """

    jobs: tuple[Job, ...]
    others: tuple[Row, ...]


@dataclass(frozen=True)
class _Place:
    path: Path
    name: str
    known: dict[str, Any]
    come_across: bool


def is_many(words: Sequence[str | os.PathLike[str]]) -> bool:
    """Whether words name several updates, or may: a folder, a pattern, a manifest, two files.

    Args:
        words: As on the command line.

    Example:
        >>> is_many(["update.pt"]), is_many(["*.pt"]), is_many(["a.pt", "b.pt"])
        (False, True, True)
    """
    if len(words) != 1:
        return True
    path = Path(words[0])
    return path.is_dir() or _is_pattern(path) or _is_manifest(path)


def find(words: Sequence[str | os.PathLike[str]], reading: Reading, out: Path) -> Found:
    """Find the updates that words name.

    A folder's files are all below it, hidden ones left out; links to files are followed, links to
    folders are not. A pattern's are those that match, and those in folders that match.

    Args:
        words: Folders, patterns, manifests and files.
        reading: What is said about all of them.
        out: Where results go; nothing below it is an update.

    Raises:
        InputError: A word names nothing, or a manifest cannot be read.
    """
    several = len(words) > 1
    base = os.path.commonpath([_base(Path(word)) for word in words]) if several else ""
    places: dict[str, _Place] = {}
    others: list[Row] = []
    for word in words:
        for each in _places(Path(word), base, out, others):
            # Named twice, such as by a folder and by itself: once is enough.
            places.setdefault(os.path.abspath(each.path), each)
    weights = {os.path.realpath(reading.weights)} if reading.weights is not None else set()
    weights |= {os.path.realpath(w) for p in places.values() if (w := p.known.get("weights"))}
    ordered = sorted(places.values(), key=lambda place: place.name)
    chosen = []
    for place in ordered:
        if place.come_across and os.path.realpath(place.path) in weights:
            others.append(Row(place.name, NOT_AN_UPDATE, "It is the file with the weights before."))
        else:
            chosen.append(place)
    if not chosen and not others:
        shown = ", ".join(repr(str(word)) for word in words[:3])
        raise InputError("UPDATE", f"no file in {shown}", "captured updates")
    named = zip(chosen, stems(place.name for place in chosen), strict=True)
    jobs, faults = [], Faults("manifest")
    for place, stem in named:
        try:
            jobs.append(_job(place, stem, reading))
        except InputError as fault:
            faults.add(fault)
    faults.refuse()
    return Found(tuple(jobs), tuple(sorted(others, key=lambda row: row.name)))


def _job(place: _Place, stem: str, reading: Reading) -> Job:
    try:
        own = replace(reading, **place.known)
    except InputError as error:
        where = f"{place.name}: {error.argument}"
        raise InputError(where, error.found, error.expected, error.remedy) from error
    if own.weights is not None:
        own = replace(own, weights=os.path.abspath(own.weights))
    # Workers need not be in this folder.
    return Job(place.name, stem, os.path.abspath(place.path), own, place.come_across)


def _places(word: Path, base: str, out: Path, others: list[Row]) -> Iterator[_Place]:
    if word.is_dir():
        if _within(word, out):
            raise InputError("--out", f"{str(out)!r}, where the updates are", "another folder")
        yield from _below(word, base or str(word), out, others)
    elif _is_pattern(word):
        matched = sorted(glob.glob(str(word), recursive=True))
        if not matched:
            raise InputError("UPDATE", f"no file that matches {str(word)!r}", "captured updates")
        for path in map(Path, matched):
            if path.is_dir():
                yield from _below(path, base or _base(word), out, others)
            elif not _within(path, out):
                yield _Place(path, _name(path, base or _base(word)), {}, True)
    elif _is_manifest(word):
        for update, known in read_manifest(word):
            path = word.parent / update
            yield _Place(path, _name(path, base) if base else update, known, False)
    elif word.exists():
        yield _Place(word, _name(word, base or _base(word)), {}, False)
    else:
        raise InputError(
            "UPDATE", f"{str(word)!r}, which is not there", "a file, folder or pattern"
        )


def _below(folder: Path, base: str, out: Path, others: list[Row]) -> Iterator[_Place]:
    def unreadable(error: OSError) -> None:
        name = _name(Path(error.filename), base)
        others.append(Row(name, UNREADABLE, f"The folder could not be read: {error.strerror}."))

    for path, folders, files in os.walk(folder, onerror=unreadable):
        here = Path(path)
        folders[:] = sorted(f for f in folders if f[0] != "." and not _within(here / f, out))
        # A link to a folder is among the folders, and is not entered; say so.
        linked = [f for f in folders if (here / f).is_symlink()]
        for name in linked:
            others.append(Row(_name(here / name, base), NOT_AN_UPDATE, "A link to a folder."))
        if _within(here, out):
            continue
        for file in sorted(files):
            if file[0] != ".":
                yield _Place(here / file, _name(here / file, base), {}, True)


def _within(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _is_pattern(path: Path) -> bool:
    return bool(_WILD & set(str(path))) and not path.exists()


def _is_manifest(path: Path) -> bool:
    """By its suffix, unless the content is something else: a JSON manifest is a list."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".json") or not path.is_file():
        return False
    try:
        sniff(path)
    except InputError:
        with suppress(OSError), path.open("rb") as stream:
            head = stream.read(512).removeprefix(codecs.BOM_UTF8).lstrip()
            return suffix == ".csv" or head.startswith(b"[")
    return False


def _base(word: Path) -> str:
    """The folder at which names of what a word names begin."""
    if word.is_dir():
        return os.path.abspath(word)
    if _is_pattern(word):
        parts = list(word.parts)
        fixed = next(i for i, part in enumerate(parts) if _WILD & set(part))
        return os.path.abspath(Path(*parts[:fixed]))
    return os.path.dirname(os.path.abspath(word))


def _name(path: Path, base: str) -> str:
    return Path(os.path.relpath(path, base)).as_posix()
