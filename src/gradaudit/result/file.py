"""A result's two files, its JSON and its arrays: written whole, and read with suspicion."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from gradaudit.decoding import Count, check_keys, decode
from gradaudit.errors import InputError
from gradaudit.evidence import (
    ApproximateEvidence,
    Certificate,
    LayerReport,
    RecordEvidence,
    SearchReport,
    Spectrum,
    Status,
)
from gradaudit.preprocessing import Preprocessing
from gradaudit.result.request import Request
from gradaudit.tensorfile import (
    check_file,
    fill,
    is_safetensors,
    read_tensors,
    replacing,
    sha256_of,
    taking_turns,
)

SCHEMA = "gradaudit.audit-result"
SCHEMA_VERSION = "2"
# Versions that are still read; what they lack is filled in by `_upgraded`.
_READABLE = ("1", SCHEMA_VERSION)
MAX_JSON_BYTES = 64 * 2**20
ARRAYS = ("records", "activation_gradients", "approximate_records")
_ANOTHER_VERSION = "if another version wrote it, run the audit again with this one"

# What is read back, by key, and as what; the other keys are derived, or the arrays.
_FIELDS: dict[str, Any] = {
    "status": Status,
    "cause": str,
    "remedy": str,
    "layer": str | None,
    "batch_size": Count | None,
    "spectrum": Spectrum | None,
    "scale_identified": bool,
    "evidence": tuple[RecordEvidence, ...],
    "certificate": Certificate,
    "approximate_evidence": tuple[ApproximateEvidence, ...],
    "layers": tuple[LayerReport, ...],
    "search": SearchReport,
    "assumptions": tuple[str, ...],
    "update_sha256": str,
    "source": dict[str, str],
    "created": str,
}
# Here null is none, and no infinity.
_STRICT: dict[str, Any] = {"preprocessing": Preprocessing | None, "request": Request | None}
_DERIVED: dict[str, Any] = {"summary": str, "leak_proven": bool, "records_recovered": Count}
_OTHERS = ["schema", "schema_version", "arrays"]


def write_result(path: str | Path, value: dict[str, Any], arrays: Mapping[str, Tensor]) -> None:
    """Write a result's JSON, and beside it the arrays there are.

    Args:
        path: The JSON file.
        value: What `plain` made of it; says where the arrays are if there are any.
        arrays: By name, one of `ARRAYS`.

    Raises:
        InputError: The path cannot be written to, or is itself a ``.safetensors`` path.
    """
    beside = Path(path).with_suffix(".safetensors")
    if beside == Path(path):
        raise InputError(
            str(path), "the place of the arrays", "a path for the JSON", "end it in .json"
        )
    # Two audits may write to one place: each pair is of one of them. And both files are on the disk
    # before the first takes its place, so that a full one leaves the pair that was there.
    with taking_turns(path), replacing(path) as temporary:
        if not arrays:
            _write_json(temporary, value)
            return
        with replacing(beside) as temporary_arrays:
            # One entry: safetensors writes several in random order, and a digest should repeat.
            fill(beside, temporary_arrays, arrays, {"format": f"{SCHEMA} {SCHEMA_VERSION}"})
            value["arrays"] = {"file": beside.name, "sha256": sha256_of(temporary_arrays)}
            _write_json(temporary, value)


def _write_json(file: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    # A file name that is no UTF-8 holds lone surrogates, and "backslashreplace" writes those in
    # just the way JSON escapes them.
    file.write_bytes(text.encode("utf-8", errors="backslashreplace"))


def read_result(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read what `write_result` wrote.

    Args:
        path: The JSON file.

    Returns:
        The fields of an `AuditResult`, and what the file says that follows from them.

    Raises:
        InputError: Not such a file, another schema version, or arrays of another run.
    """
    if check_file(path) > MAX_JSON_BYTES:
        raise InputError(str(path), "a file too large for a result", "a result's JSON")
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a readable file") from error
    if is_safetensors(content):
        raise InputError(
            str(path),
            "a safetensors file",
            "the JSON that an audit writes",
            "give result.json of 'gradaudit audit --out FOLDER', or the file of --json-out",
        )
    try:
        value = json.loads(content.decode("utf-8"))
    # A RecursionError is what deep nesting gives.
    except (ValueError, RecursionError) as error:
        why = "no text" if isinstance(error, UnicodeDecodeError) else f"{error}"
        raise InputError(
            str(path), f"no readable JSON ({why})", "the JSON that an audit writes"
        ) from error
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise InputError(
            str(path), "JSON that is no audit result", f"an object with schema {SCHEMA!r}"
        )
    if value.get("schema_version") not in _READABLE:
        raise InputError(
            str(path),
            f"schema version {reprlib.repr(value.get('schema_version'))}",
            "schema version " + " or ".join(map(repr, _READABLE)),
            "run the audit again with this version, or read it with the one that wrote it",
        )
    try:
        return _decoded(_upgraded(value, str(path)), Path(path))
    except InputError as error:
        raise InputError(
            error.argument, error.found, error.expected, error.remedy or _ANOTHER_VERSION
        ) from error


def plain(value: Any) -> Any:
    """Plain JSON values: lists for tuples, None for what JSON cannot hold, no numpy scalars."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Status):
        return value.value
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class _Arrays:
    file: str
    sha256: str


def _load_arrays(path: Path, arrays: _Arrays | None) -> dict[str, Any]:
    """The arrays beside a JSON, if they are those it was written with."""
    if arrays is None:
        return {}
    # A crafted file must not make us read elsewhere.
    if not arrays.file or Path(arrays.file).name != arrays.file or arrays.file == "..":
        raise InputError(
            f"{path}: arrays.file", reprlib.repr(arrays.file), "a file name without a folder"
        )
    beside = path.with_name(arrays.file)
    check_file(beside)
    if sha256_of(beside) != arrays.sha256:
        raise InputError(
            str(beside), "arrays of another run", "the arrays that belong to this JSON"
        )
    tensors = read_tensors(beside)[0]
    for name, tensor in tensors.items():
        if name not in ARRAYS or tensor.ndim != 2 or not tensor.is_floating_point():
            raise InputError(
                str(beside),
                f"{reprlib.repr(name)} of shape {tuple(tensor.shape)} and type {tensor.dtype}",
                f"floating-point matrices {' and '.join(ARRAYS)}",
            )
    return tensors


def _upgraded(value: dict[str, Any], where: str) -> dict[str, Any]:
    """A result of an older version with what it could not say: that it is unknown."""
    if value["schema_version"] != "1":
        return value
    search = value.get("search")
    if isinstance(search, dict):
        added = {"machine": {}, "threads": 0, "hurried": None}
        value = {**value, "search": _extended(search, added, f"{where}: search")}
    return _extended(value, {"request": None}, where)


def _extended(value: dict[str, Any], added: dict[str, Any], where: str) -> dict[str, Any]:
    for name in added:
        if name in value:
            raise InputError(where, f"the key {name!r}", "none, as its schema version has it not")
    return value | added


def _decoded(value: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    where = str(path)
    check_keys(value, [*_FIELDS, *_STRICT, *_DERIVED, *_OTHERS], where)
    fields = {key: decode(kind, value[key], f"{where}: {key}") for key, kind in _FIELDS.items()}
    derived = {key: decode(kind, value[key], f"{where}: {key}") for key, kind in _DERIVED.items()}
    for key, kind in _STRICT.items():
        fields[key] = decode(kind, value[key], f"{where}: {key}", null_is_infinite=False)
    arrays = _load_arrays(path, decode(_Arrays | None, value["arrays"], f"{where}: arrays"))
    return fields | arrays, derived
