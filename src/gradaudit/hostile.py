"""What every reader owes a hostile file: one line instead of a traceback, and a bound on memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from gradaudit import tensorfile
from gradaudit.errors import InputError

# A gradient is mostly noise and compresses badly; one with many dead neurons may reach 1:20. The
# floor lets small files be anything.
EXPANSION = 32
EXPANSION_FLOOR_BYTES = 2**28


@contextmanager
def reading(path: str | Path, expected: str) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one `InputError`.

    Every ``Exception`` is turned: which ones torch, numpy and zipfile raise on hostile bytes is
    not documented. Their warnings speak to the file's author, not to the reader, and are dropped.

    Args:
        path: The file, for the message.
        expected: What the file was taken for.

    Raises:
        InputError: The body raised.

    Example:
        >>> with reading("update.npz", "an npz archive"):
        ...     raise EOFError("no data")
        Traceback (most recent call last):
        gradaudit.errors.InputError: update.npz: found a damaged file (no data), expected an npz ...
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            str(path), f"a damaged file ({reason(error)})", expected, "save the file again"
        ) from error


def reason(error: BaseException) -> str:
    """The first line of an error's text, short and printable.

    Example:
        >>> reason(MemoryError())
        'MemoryError'
    """
    lines = str(error).strip().splitlines()
    text = "".join(c for c in lines[0] if c.isprintable())[:160].strip() if lines else ""
    return text or type(error).__name__


def expansion_limit(file_bytes: int) -> int:
    """Bytes that a file of a given size may unfold to in memory.

    Example:
        >>> expansion_limit(100) == EXPANSION_FLOOR_BYTES
        True
    """
    return min(tensorfile.MAX_FILE_BYTES, max(EXPANSION_FLOOR_BYTES, EXPANSION * file_bytes))


def check_expansion(path: str | Path, declared: int, file_bytes: int) -> None:
    """Refuse a file that declares far more than it holds.

    Raises:
        InputError: ``declared`` exceeds `expansion_limit`.
    """
    if declared > expansion_limit(file_bytes):
        raise InputError(
            str(path),
            f"{declared:,} declared bytes in a file of {file_bytes:,}",
            f"at most {expansion_limit(file_bytes):,}",
            "save the tensors uncompressed, each with its own storage",
        )


def check_tensors(path: str | Path, tensors: Mapping[str, Tensor], file_bytes: int) -> None:
    """Refuse views that are far larger than the storage behind them (expanded tensors).

    Raises:
        InputError: The tensors' elements together exceed `expansion_limit`.
    """
    check_expansion(path, sum(t.numel() * t.element_size() for t in tensors.values()), file_bytes)
