"""Reading .npz archives: the one door to them. Sizes are checked before memory is taken."""

from __future__ import annotations

import io
import math
import reprlib
import zipfile
from pathlib import Path
from typing import cast

import numpy as np
from jaxtyping import Shaped

from gradaudit.errors import InputError
from gradaudit.hostile import check_expansion, reading
from gradaudit.tensorfile import check_count, check_file

EXPECTED = "an archive written by numpy.savez"


def read_arrays(path: str | Path) -> dict[str, Shaped[np.ndarray, " ..."]]:
    """Read an archive written by ``numpy.savez`` or ``numpy.savez_compressed``.

    Big-endian and column-major arrays are converted; members are read in memory and never
    written anywhere, so that their names cannot point outside. Nothing is unpickled.

    Args:
        path: The file.

    Returns:
        Arrays by name, in the machine's byte order and row-major.

    Raises:
        InputError: The archive is damaged, declares more than it holds, or an array is not of
            numbers (objects, text, bfloat16).
    """
    size = check_file(path)
    with reading(path, EXPECTED), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        check_count(path, len(members))
        check_expansion(path, sum(member.file_size for member in members), size)
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) != len(names):
            raise InputError(str(path), "two arrays of one name", "one of each", "save it again")
        return {
            name: _read_member(path, archive, name, member)
            for name, member in zip(names, members, strict=True)
        }


def _read_member(
    path: str | Path, archive: zipfile.ZipFile, name: str, member: zipfile.ZipInfo
) -> Shaped[np.ndarray, " ..."]:
    where = f"{path}[{name[:200]!r}]"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(where, "an unusual compression", EXPECTED, "use numpy.savez")
    with archive.open(member) as stream:
        check_array(where, cast(io.BufferedIOBase, stream), member.file_size)
    with archive.open(member) as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
    # ascontiguousarray would make a 0-d array 1-d; asarray with an order keeps it.
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def check_array(where: str, stream: io.BufferedIOBase, size: int) -> None:
    """Check, by its header alone, that an array in the .npy format holds what it declares.

    Args:
        where: What it is, for messages.
        stream: At its beginning.
        size: Bytes of it all.

    Raises:
        InputError: It declares more or less than it holds, or is not of numbers.
        ValueError: It has no such header.

    Example:
        >>> stream = io.BytesIO()
        >>> np.save(stream, np.zeros(3))
        >>> size = stream.tell()
        >>> _ = stream.seek(0)
        >>> check_array("a", stream, size)
    """
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise InputError(
            where, f"version {version} of the .npy format", "version 1 or 2", "use numpy.savez"
        )
    _check_dtype(where, dtype)
    declared = math.prod(shape) * dtype.itemsize
    held = size - stream.tell()
    if min(shape, default=0) < 0 or declared != held:
        raise InputError(
            where, f"shape {reprlib.repr(shape)} but {held:,} bytes of data", f"{declared:,} bytes"
        )


def _check_dtype(where: str, dtype: np.dtype[np.generic]) -> None:
    if dtype.kind == "f" and dtype.itemsize in (2, 4, 8):
        return
    if dtype.kind in "iub" or (dtype.kind == "c" and dtype.itemsize <= 16):
        return
    if dtype.kind == "O":
        raise InputError(
            where,
            "an object array, which could run code and was not opened",
            "numbers",
            "save each tensor as its own array, e.g. 'gradient/fc.weight'",
        )
    remedy = "save a float32 array"
    if dtype.kind == "V" and dtype.itemsize == 2:
        remedy = "if this is bfloat16, which .npz cannot hold, save float32 or use safetensors"
    raise InputError(where, f"an array of {str(dtype)[:40]}", "numbers of 16 to 64 bits", remedy)
