"""Reading and writing named tensors with text metadata, safely: the one door to safetensors."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gradaudit.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# Larger files are refused before anything is read; an ImageNet-sized layer of width 16,000 is
# 9.6 GB in float32, and an update holds two of those.
MAX_FILE_BYTES = 64 * 2**30
# Weights and gradient of the deepest models have some thousands of tensors each. One costs about
# a kilobyte, however few numbers it holds, and its entry in a file as little as 60 bytes.
MAX_TENSORS = 100_000
# With long names, those take this much; it is read before anything can be counted.
MAX_HEADER_BYTES = 2**24


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Write to a temporary neighbour and rename it, so that no half-written file is ever seen.

    A link is followed: what it points to is replaced, and the link stays.

    Args:
        path: The file to write. Folders that it needs are made.

    Yields:
        The temporary path to write to.

    Raises:
        InputError: The folder cannot be made or written to, or the path is no regular file's.
    """
    target = Path(os.path.realpath(path))
    temporary: Path | None = None
    try:
        _check_replaceable(str(path), path, target)
        _make_folder(target.parent)
        temporary = _neighbour(target)
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        # mkstemp makes private files; a result is for whoever the folder is for.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
        temporary = None
    except OSError as error:
        raise InputError(
            str(path), error.strerror or str(error), "a place that can be written to"
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def taking_turns(path: str | Path) -> Iterator[None]:
    """Wait until nobody else writes files that belong together into a file's folder.

    Each file is replaced whole; a pair of two runs would still not be a pair. The system ends the
    wait when the other process dies. Where folders cannot be locked (Windows, some network
    drives), nobody waits.

    Args:
        path: One of the files. Its folder is made if needed.

    Raises:
        InputError: The folder cannot be made, or the path is no regular file's.
    """
    target = Path(os.path.realpath(path))
    try:
        _check_replaceable(str(path), path, target)
        _make_folder(target.parent)
    except OSError as error:
        raise InputError(
            str(path), error.strerror or str(error), "a place that can be written to"
        ) from error
    handle: int | None = None
    try:
        if fcntl is not None:
            with suppress(OSError):
                handle = os.open(target.parent, os.O_RDONLY)
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def check_place(argument: str, path: str | Path) -> None:
    """Check that `replacing` could write a file, by making all but the file and removing it.

    Permissions do not tell: root may write everywhere, except on a medium that is read-only.

    Args:
        argument: What the place is for, for the message.
        path: The file to be written.

    Raises:
        InputError: It cannot be written.

    Example:
        >>> check_place("--out", "..")
        Traceback (most recent call last):
        gradaudit.errors.InputError: --out: found '..', a folder, expected a file to write
    """
    target = Path(os.path.realpath(path))
    try:
        _check_replaceable(argument, path, target)
        made = _make_folder(target.parent)
        try:
            _neighbour(target).unlink()
        finally:
            for folder in made:
                folder.rmdir()
    except OSError as error:
        raise InputError(
            argument, f"{str(path)!r}: {error.strerror or error}", "a place that can be written to"
        ) from error


def _check_replaceable(argument: str, path: str | Path, target: Path) -> None:
    if target.is_dir():
        raise InputError(argument, f"{str(path)!r}, a folder", "a file to write")
    if target.exists() and not target.is_file():
        # A rename would put a file in the place of a device such as /dev/null.
        raise InputError(argument, f"{str(path)!r}, no regular file", "a file to write")
    above = next(folder for folder in target.parents if folder.exists())
    if not above.is_dir():
        raise InputError(argument, f"{str(path)!r} under a file", "a path under folders")


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder and those above it, all or none; the new ones, innermost first."""
    made: list[Path] = []
    try:
        for each in reversed([f for f in (folder, *folder.parents) if not f.exists()]):
            each.mkdir(exist_ok=True)
            made.insert(0, each)
    except OSError:
        for each in made:
            each.rmdir()
        raise
    return made


def _neighbour(target: Path) -> Path:
    """A new, empty, hidden file beside another one."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    return Path(name)


def write_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write named tensors and text metadata as safetensors, atomically."""
    with replacing(path) as temporary:
        fill(path, temporary, tensors, metadata)


def fill(
    path: str | Path, temporary: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write named tensors and text metadata as safetensors to what `replacing` gave.

    Args:
        path: What `replacing` was given, for the message.
        temporary: What it gave.
        tensors: By name.
        metadata: Text by name.

    Raises:
        InputError: The file cannot be written.
    """
    # Shared storage (tied weights) and strides are not representable: copy where needed.
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    try:
        save_file(plain, temporary, metadata=dict(metadata))
    except SafetensorError as error:
        # Its own kind also for what the system says, such as that the disk is full.
        raise InputError(str(path), f"{error}", "a place that can be written to") from error


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file: named tensors and text metadata.

    Raises:
        InputError: The file is missing, too large, or not safetensors.
    """
    size = check_file(path)
    try:
        _check_header(path, size)
        with safe_open(path, framework="pt") as stream:
            metadata = dict(stream.metadata() or {})
            names = list(stream.keys())
            check_count(path, len(names))
            return {name: stream.get_tensor(name) for name in names}, metadata
    except InputError:
        raise
    except (SafetensorError, ValueError, RuntimeError, OSError, MemoryError) as error:
        raise InputError(
            str(path), f"an unreadable file ({error})", "a safetensors file"
        ) from error


def _check_header(path: str | Path, size: int) -> None:
    with Path(path).open("rb") as stream:
        declared = int.from_bytes(stream.read(8), "little")
    # What is longer than the file is not read, and is the library's to refuse.
    if MAX_HEADER_BYTES < declared < size:
        raise InputError(
            str(path),
            f"a safetensors header of {declared:,} bytes",
            f"at most {MAX_HEADER_BYTES:,}",
            "save only the layers to be audited",
        )


def check_count(path: str | Path, number: int) -> None:
    """Refuse a file of so many tensors that reading it would take minutes, or all memory.

    Args:
        path: The file, for the message.
        number: Of its tensors.

    Raises:
        InputError: There are more than `MAX_TENSORS`.

    Example:
        >>> check_count("update.npz", 200_000)
        Traceback (most recent call last):
        gradaudit.errors.InputError: update.npz: found 200,000 tensors, expected at most 100,000...
    """
    if number > MAX_TENSORS:
        remedy = "save only the layers to be audited"
        raise InputError(str(path), f"{number:,} tensors", f"at most {MAX_TENSORS:,}", remedy)


def is_safetensors(head: bytes) -> bool:
    r"""Whether a file that begins so can be safetensors: a length in eight bytes, then JSON.

    Args:
        head: Its first nine bytes or more.

    Example:
        >>> is_safetensors(b"\x28" + bytes(7) + b"{"), is_safetensors(b'{"a": 1, "b": {}}')
        (True, False)
    """
    # No header is so long that its length has no zero byte; text has none at all.
    return head[8:9] == b"{" and b"\0" in head[:8]


def check_file(path: str | Path) -> int:
    """Check that a path is a readable, non-empty regular file of acceptable size.

    Returns:
        Its size in bytes.

    Raises:
        InputError: It is not.
    """
    file = Path(path)
    try:
        if not file.exists():
            raise InputError(str(path), "no such file", "an existing file", "check the path")
        if not file.is_file():
            raise InputError(str(path), "not a regular file", "a file")
        size = file.stat().st_size
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a readable file") from error
    if size == 0:
        raise InputError(str(path), "an empty file", "a file with content")
    if size > MAX_FILE_BYTES:
        raise InputError(
            str(path),
            f"{size:,} bytes",
            f"at most {MAX_FILE_BYTES:,}",
            "save only the layers to be audited",
        )
    return size


def sha256_of(path: str | Path) -> str:
    """Hex SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
