"""A manifest: a table that says of each captured file what is known about it."""

from __future__ import annotations

import csv
import io
import json
import math
import reprlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from gradaudit.bulk.faults import Faults
from gradaudit.errors import InputError
from gradaudit.tensorfile import check_file

MAX_BYTES = 64 * 2**20
# Names of unknown columns that are told.
MOST_COLUMNS = 5
_FILES = ("update", "weights")
_TEXTS = ("contains", "optimizer")
_WHOLE = ("local_epochs", "local_batch_size", "local_records")
_REAL = ("learning_rate", "noise", "momentum", "weight_decay")
COLUMNS = (*_FILES, *_TEXTS, *_WHOLE, *_REAL)


def read_manifest(path: Path) -> list[tuple[str, dict[str, Any]]]:
    r"""Read a manifest: JSON, a list of objects; or CSV, with names in its first line.

    CSV is separated by commas or, as spreadsheets of many countries write it, by semicolons. Its
    columns are those of `COLUMNS`, of which only ``update`` is needed; nothing is said by an empty
    cell, null or a missing key. Paths start at the manifest's folder and stay below it: a
    manifest may come with the captures, from somebody else.

    Args:
        path: The file; its suffix says which of the two it is.

    Returns:
        For each update its path as written, and what is said about it, as fields of `Reading`,
        where paths are complete.

    Raises:
        InputError: It is no manifest, or has unknown columns or values that are none; says of
            all of them where.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "manifest.csv"
        ...     _ = file.write_text("update,noise\na.pt,0.1\n")
        ...     read_manifest(file)
        [('a.pt', {'noise': 0.1})]
    """
    where = path.name
    if check_file(path) > MAX_BYTES:
        raise InputError(where, "a file too large for a manifest", f"at most {MAX_BYTES:,} bytes")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a readable file") from error
    except UnicodeDecodeError as error:
        raise InputError(where, "text that is not UTF-8", "UTF-8") from error
    faults = Faults(where)
    kind = _csv if path.suffix.lower() == ".csv" else _json
    read: dict[str, dict[str, Any]] = {}
    empty = True
    for place, row in kind(text, where, faults):
        empty = False
        try:
            update, known = _row(path.parent, row, f"{where}, {place}", faults)
            if update in read:
                raise InputError(f"{where}, {place}", f"{update!r:.80} again", "each update once")
        except InputError as fault:
            faults.add(fault)
        else:
            if update is not None:
                read[update] = known
    if empty and not faults:
        faults.add(InputError(where, "no row", "one for each update"))
    faults.refuse()
    return list(read.items())


def _csv(text: str, where: str, faults: Faults) -> Iterable[tuple[str, dict[str, Any]]]:
    first = text.partition("\n")[0]
    delimiter = ";" if ";" in first and "," not in first else ","
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    try:
        columns = [name.strip() for name in next(reader, [])]
        _check_columns(columns, where, faults)
        if "update" not in columns:
            wanted = "one with the path of each file"
            faults.add(InputError(where, "no column 'update'", wanted, "name the columns first"))
            return
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            place = f"line {reader.line_num}"
            if len(cells) != len(columns):
                expected = f"{len(columns)}, one a column"
                faults.add(InputError(f"{where}, {place}", f"{len(cells)} cells", expected))
                continue
            given = zip(columns, (cell.strip() for cell in cells), strict=True)
            yield place, {name: _parsed(name, cell) for name, cell in given if cell}
    except csv.Error as error:
        faults.add(InputError(f"{where}, line {reader.line_num}", str(error), "CSV"))


def _json(text: str, where: str, faults: Faults) -> Iterable[tuple[str, dict[str, Any]]]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _check_columns([name for name, _ in pairs], where, faults)
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=once)
    # A RecursionError is what deep nesting gives.
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"no readable JSON ({error})", "a list of objects") from error
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise InputError(where, reprlib.repr(value), "a list of objects, one an update")
    for number, row in enumerate(value, 1):
        yield f"row {number}", {name: v for name, v in row.items() if v is not None}


def _check_columns(names: list[str], where: str, faults: Faults) -> None:
    unknown = [name for name in dict.fromkeys(names) if name not in COLUMNS]
    twice = [name for name in dict.fromkeys(names) if name in COLUMNS and names.count(name) > 1]
    found = [f"the unknown column {name!r:.60}" for name in unknown[:MOST_COLUMNS]]
    found += [f"{name!r} twice" for name in twice]
    if found:
        if len(unknown) > MOST_COLUMNS:
            found.append(f"{len(unknown) - MOST_COLUMNS:,} more")
        expected = "columns of " + ", ".join(COLUMNS)
        remedy = "give the rest as options for all"
        faults.add(InputError(where, " and ".join(found), expected, remedy))


def _parsed(name: str, cell: str) -> Any:
    """A cell as JSON would have it; what is no number stays text, and is refused with the rest."""
    kind: type = int if name in _WHOLE else float if name in _REAL else str
    try:
        return kind(cell)
    except ValueError:
        return cell


def _row(
    folder: Path, row: dict[str, Any], where: str, faults: Faults
) -> tuple[str | None, dict[str, Any]]:
    """The update's path, None if it is none, and what is said about it."""
    known = {}
    for name, value in row.items():
        # A column that is unknown is a fault of the file.
        if name in COLUMNS:
            try:
                _check(name, value, f"{where}: {name}")
            except InputError as fault:
                faults.add(fault)
            else:
                known[name] = value
    if "update" not in row:
        raise InputError(where, "no update", "the path of its file")
    update = str(PurePosixPath(known.pop("update"))) if "update" in known else None
    for path in filter(None, (update, known.get("weights"))):
        inside = PurePosixPath(path)
        if inside.is_absolute() or ".." in inside.parts or "\0" in path:
            raise InputError(
                where,
                f"the path {path!r:.80}",
                "one below the manifest's folder",
                "move the manifest, or name these updates on the command line",
            )
    if "weights" in known:
        known["weights"] = str(folder / known["weights"])
    return update, known


def _check(name: str, value: Any, where: str) -> None:
    if name in (*_FILES, *_TEXTS):
        wanted, right = "text", isinstance(value, str) and value != ""
    elif name in _WHOLE:
        wanted, right = "a whole number", isinstance(value, int)
    else:
        wanted, right = "a number", isinstance(value, int | float) and math.isfinite(value)
    if not right or isinstance(value, bool):
        raise InputError(where, reprlib.repr(value), wanted)
