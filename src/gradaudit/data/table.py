"""Tables from CSV files: numeric columns standardised, the others one-hot, all of it invertible."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from gradaudit.data.arrays import standardisation
from gradaudit.data.images import check_normalisation
from gradaudit.data.source import RecordSet, Source
from gradaudit.errors import InputError
from gradaudit.preprocessing import Column, Preprocessing
from gradaudit.tensorfile import check_file

MISSING = ("", "?")
MAX_BYTES = 64 * 2**20
# More categories than this are names or identifiers, which no network takes one-hot.
MAX_CATEGORIES = 1_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.I | re.A)


def csv_table(
    path: str | Path,
    *,
    label_column: str | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    delimiter: str = ",",
    normalise: str | bool = "standard",
) -> Source:
    """The rows of a CSV file with a header, plain or gzipped, in UTF-8.

    A column is numeric when every value in it that is not missing (empty or ``?``) is a number. A
    missing value is a category of its own; in a numeric column it is an error. Categories and
    classes are in alphabetical order, numbers in numerical order.

    Args:
        path: The file.
        label_column: The column of classes; the last by default.
        drop: Columns to leave out.
        categorical: Columns to take one-hot although their values are numbers.
        delimiter: Between values.
        normalise: ``"standard"``: numeric columns get mean 0 and deviation 1 (a constant one is
            only centred); ``"unit"``: numbers are left as they are.

    Raises:
        InputError: The file is not such a table; says where.
    """
    header, rows, lines = _read(path, delimiter)
    label = header[-1] if label_column is None else label_column
    for name in (label, *drop, *categorical):
        if name not in header:
            known = ", ".join(header[:20])
            raise InputError(f"{path} column", repr(name), f"one of {known}")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header) if name not in drop}
    if label not in columns:
        raise InputError("drop", f"the label column {label!r}", "other columns")
    class_names, labels = _classes(f"{path} column {label!r}", columns.pop(label), lines)
    if not columns:
        raise InputError(str(path), "no column beside the label", "at least one feature")
    standard = check_normalisation(normalise) == "standard"
    encoded = [
        _encode(
            f"{path} column {name!r}",
            name,
            values,
            lines,
            categorical=name in categorical,
            standard=standard,
        )
        for name, values in columns.items()
    ]

    def inputs(indices: Int[np.ndarray, " b"]) -> Float[np.ndarray, "b n"]:
        return np.concatenate([column.inputs(indices) for column in encoded], axis=1)

    preprocessing = Preprocessing(
        columns=tuple(column.column for column in encoded), class_names=class_names
    )
    return RecordSet(str(path), labels, inputs, preprocessing, len(class_names))


@dataclass(frozen=True, eq=False)
class _Encoded:
    """A column with its values: numbers as they are, or numbers of categories."""

    column: Column
    values: np.ndarray

    def inputs(self, indices: Int[np.ndarray, " b"]) -> Float[np.ndarray, "b w"]:
        chosen = self.values[indices]
        if self.column.categories:
            return (chosen[:, np.newaxis] == np.arange(self.column.width)).astype(np.float64)
        return ((chosen - self.column.mean) / self.column.scale)[:, np.newaxis]


def _read(path: str | Path, delimiter: str) -> tuple[list[str], list[list[str]], list[int]]:
    if len(delimiter) != 1 or delimiter in '"\r\n ':
        raise InputError("delimiter", repr(delimiter), "one character such as , or ;")
    rows, lines = [], []
    try:
        reader = csv.reader(io.StringIO(_text(path), newline=""), delimiter=delimiter, strict=True)
        header = [name.strip() for name in next(reader, [])]
        for row in reader:
            if not row:
                continue  # a blank line
            if len(row) != len(header):
                raise InputError(
                    f"{path} line {reader.line_num}", f"{len(row)} values", f"{len(header)}"
                )
            rows.append([value.strip() for value in row])
            lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(
            f"{path} line {reader.line_num}", f"broken CSV ({error})", "well-formed CSV"
        ) from error
    if not rows:
        raise InputError(str(path), "no rows below the header", "at least one row")
    header = [name or f"column {i}" for i, name in enumerate(header, start=1)]
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path} header", f"the column {twice!r} twice", "different names")
    return header, rows, lines


def _text(path: str | Path) -> str:
    size = check_file(path)
    try:
        if str(path).endswith(".gz"):
            with gzip.open(path) as stream:
                # Read one byte more than allowed: a small file may unpack to anything.
                data = stream.read(MAX_BYTES + 1)
            size = len(data)
        elif size <= MAX_BYTES:
            data = Path(path).read_bytes()
        if size > MAX_BYTES:
            raise InputError(str(path), "a larger file", f"at most {MAX_BYTES:,} bytes of CSV")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            str(path), f"a byte that is not UTF-8 at {error.start:,}", "text in UTF-8"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            str(path), f"an unreadable file ({error})", "a CSV file, or one in gzip"
        ) from error


def _is_numeric(values: Sequence[str]) -> bool:
    present = [value for value in values if value not in MISSING]
    return bool(present) and all(_NUMBER.fullmatch(value) for value in present)


def _classes(
    where: str, values: Sequence[str], lines: Sequence[int]
) -> tuple[tuple[str, ...], Int[np.ndarray, " n"]]:
    for value, line in zip(values, lines, strict=True):
        if value in MISSING:
            raise InputError(
                f"{where} line {line}", "no label", "a class", "fill it in or drop the row"
            )
    return _categories(where, values, "choose another column with label_column=NAME")


def _categories(
    where: str, values: Sequence[str], remedy: str
) -> tuple[tuple[str, ...], Int[np.ndarray, " n"]]:
    distinct = sorted(set(values))
    if _is_numeric(values):
        # Stable on the alphabetical order, so that "1" and "1.0" have one order too.
        distinct.sort(key=lambda value: -np.inf if value in MISSING else float(value))
    if len(distinct) > MAX_CATEGORIES:
        raise InputError(
            where, f"{len(distinct):,} different values", f"at most {MAX_CATEGORIES:,}", remedy
        )
    numbers = {value: number for number, value in enumerate(distinct)}
    return tuple(distinct), np.asarray([numbers[value] for value in values])


def _encode(
    where: str,
    name: str,
    values: Sequence[str],
    lines: Sequence[int],
    *,
    categorical: bool,
    standard: bool,
) -> _Encoded:
    if categorical or not _is_numeric(values):
        categories, numbers = _categories(where, values, f"leave it out with drop={name}")
        return _Encoded(Column(name, categories), numbers)
    for value, line in zip(values, lines, strict=True):
        if value in MISSING or not np.isfinite(float(value)):
            raise InputError(
                f"{where} line {line}",
                "a missing value" if value in MISSING else repr(value),
                "a number, as in the column's other rows",
                f"fill it in, drop the row, or take the column as text with categorical={name}",
            )
    column = np.asarray([float(value) for value in values])
    mean, scale = 0.0, 1.0
    if standard:
        means, scales = standardisation(column[:, np.newaxis], where)
        mean, scale = float(means[0]), float(scales[0])
    return _Encoded(Column(name, (), mean, scale), column)
