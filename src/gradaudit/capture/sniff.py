"""Which format a file is in, by its content; its name plays no part."""

from __future__ import annotations

import zipfile
from enum import Enum
from pathlib import Path

from gradaudit.errors import InputError
from gradaudit.hostile import reading
from gradaudit.tensorfile import check_file, is_safetensors

EXPECTED = "a safetensors, PyTorch (.pt) or NumPy (.npz) file"

_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_TORCH_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."

_RESAVE = "save it again with torch.save(model.state_dict(), FILE)"

# (first bytes, what it is, what to do)
_STRANGERS = (
    (
        _TORCH_LEGACY,
        "PyTorch's format from before version 1.6, which can hide uninitialised memory",
        "load it where it is trusted and save it again with torch.save",
    ),
    (b"\x93NUMPY", "a single .npy array without a name", "use numpy.savez(FILE, **named_arrays)"),
    (b"\x89PNG", "a PNG image", ""),
    (b"\xff\xd8\xff", "a JPEG image", ""),
    (b"%PDF", "a PDF document", ""),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"BZh", "a bzip2 archive", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive", "unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it first"),
    (b"\x89HDF", "an HDF5 file (Keras?)", "save named tensors as .npz or safetensors"),
    (b"GGUF", "a GGUF file", "save named tensors as safetensors"),
    (b"\x80", "a bare pickle, which could run code and is not opened", _RESAVE),
)


class Format(Enum):
    """The formats that can be read."""

    SAFETENSORS = "safetensors"
    TORCH = "torch"
    NUMPY = "numpy"


def sniff(path: str | Path) -> Format:
    """Tell a file's format from its first bytes and, for archives, its table of contents.

    Args:
        path: The file.

    Returns:
        One of the readable formats. The rest of the file may still be damaged.

    Raises:
        InputError: The path is no readable regular file, or it is none of these formats.

    Example:
        >>> import tempfile
        >>> from safetensors.torch import save_file
        >>> import torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_file({"a": torch.ones(1)}, folder + "/update.pt")
        ...     sniff(folder + "/update.pt").value
        'safetensors'
    """
    check_file(path)
    try:
        with Path(path).open("rb") as stream:
            head = stream.read(512)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a readable file") from error
    if head.startswith(_ZIP):
        return _sniff_zip(path)
    if is_safetensors(head):
        return Format.SAFETENSORS
    for magic, what, remedy in _STRANGERS:
        if head.startswith(magic):
            raise InputError(str(path), what, EXPECTED, remedy)
    if head[257:262] == b"ustar":
        raise InputError(str(path), "a tar archive", EXPECTED, "unpack it, or " + _RESAVE)
    if head.startswith(b"{") and b'"total_size"' in head:
        raise InputError(
            str(path),
            "the index of a checkpoint in several files",
            EXPECTED,
            "load the model and save model.state_dict() as one file",
        )
    # Without a word of it: what is no update may be records, and refusals are in summaries.
    what = "text" if _is_text(head) else "unknown content"
    raise InputError(str(path), what, EXPECTED, "check that this is the file")


def _is_text(head: bytes) -> bool:
    # No byte of text in UTF-8 is 0x7f or above 0xf7, and hardly one of older alphabets.
    return all(byte in b"\t\n\r" or (0x20 <= byte < 0xF8 and byte != 0x7F) for byte in head)


def _sniff_zip(path: str | Path) -> Format:
    expected = "a zip archive written by torch.save or numpy.savez"
    with reading(path, expected), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if len(set(names)) != len(names):
        raise InputError(
            str(path), "two members of one name in the archive", "one of each", "save it again"
        )
    tails = {name.rpartition("/")[2] for name in names}
    if "constants.pkl" in tails or any("/code/" in f"/{name}" for name in names):
        raise InputError(
            str(path),
            "a TorchScript archive, which holds code",
            EXPECTED,
            "save its tensors with torch.save(model.state_dict(), FILE)",
        )
    if "data.pkl" in tails:
        return Format.TORCH
    if names and all(name.endswith(".npy") for name in names):
        return Format.NUMPY
    shown = ", ".join(repr(name[:40]) for name in names[:3]) or "no members"
    raise InputError(str(path), f"a zip archive of {shown}", EXPECTED, "unpack it first")
