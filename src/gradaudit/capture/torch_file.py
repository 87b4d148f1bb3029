"""Reading torch.save's zip archives without running what their pickle asks for.

Two locks. First the pickle's instructions are listed, not run: any name outside a short list of
tensor constructors ends the reading with that name in the message. Then ``torch.load`` with
``weights_only=True`` builds the tensors. PyTorch before 2.10 can be made to write outside its
buffers even so (CVE-2026-24747), and is not given the file.
"""

from __future__ import annotations

import pickletools
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from gradaudit.capture.contents import Contents
from gradaudit.errors import InputError
from gradaudit.hostile import check_expansion, reading
from gradaudit.tensorfile import check_count, check_file

EXPECTED = "an archive written by torch.save"
_REMEDY = "save plain tensors: torch.save(model.state_dict(), FILE)"
_SAFE_SINCE = (2, 10)
# A tensor takes some 200 bytes of it; all of it is read twice, a microsecond an instruction.
MAX_PICKLE_BYTES = 2**23

# Everything torch.save writes for dense tensors, parameters, and the plain containers around them.
# Not torch.storage.UntypedStorage, which it writes for a few rare types of numbers: a pickle can
# call that one, and have any amount of memory.
_ALLOWED = re.compile(
    r"collections OrderedDict"
    r"|torch\._utils _rebuild_(?:tensor|tensor_v2|tensor_v3|parameter)"
    r"|torch \w+Storage"
    r"|torch (?:b?float|u?int|complex|bool)\w*"
    r"|torch Size"
)


def read_torch(path: str | Path) -> Contents:
    """Read an archive written by ``torch.save``.

    Args:
        path: The file.

    Raises:
        InputError: The archive is damaged, compressed, holds more than tensors and plain
            containers, or this PyTorch is too old to open hostile files.
    """
    size = check_file(path)
    _check_version(path)
    with reading(path, EXPECTED):
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            # torch.save stores; only a bomb compresses.
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise InputError(
                    str(path), "compressed members", EXPECTED, "save it again with torch.save"
                )
            check_expansion(path, sum(member.file_size for member in members), size)
            # torch finds its members whatever the case of their names.
            names = [member.filename.lower() for member in members]
            if len(set(names)) != len(names) or archive.start_dir != _directory(path, size):
                raise InputError(
                    str(path), "an archive that can be read in two ways", EXPECTED, "save it again"
                )
            for name, member in zip(names, members, strict=True):
                if name.rpartition("/")[2] == "data.pkl":
                    check_instructions(path, _pickle(path, archive, member))
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
            entries = _plain(loaded, lambda number: check_count(path, number))
        except UnpicklingError as error:
            # torch's own text advises to load without protection.
            raise InputError(
                str(path), "a pickle that is damaged or of more than tensors", EXPECTED, _REMEDY
            ) from error
    return Contents(str(path), entries, size)


def _directory(path: str | Path, size: int) -> int:
    """Where the end of a zip archive says that its directory begins.

    Python looks for the directory just before the end, whatever the end says, and torch where it
    says: an archive with two directories would show one of them to the checks here and the other
    to torch.

    Raises:
        ValueError: There is no such end.
    """
    with Path(path).open("rb") as stream:
        stream.seek(max(0, size - 42))
        tail = stream.read()
        if tail[-22:-18] != b"PK\x05\x06" or tail[-2:] != b"\0\0":
            raise ValueError("no end of the archive")
        (begin,) = struct.unpack("<I", tail[-6:-2])
        if tail[:4] == b"PK\x06\x07":
            # The locator of a 64-bit end, which counts instead.
            stream.seek(struct.unpack("<Q", tail[8:16])[0])
            (begin,) = struct.unpack("<Q", stream.read(56)[48:56])
    return int(begin)


def _pickle(path: str | Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.file_size > MAX_PICKLE_BYTES:
        raise InputError(
            str(path),
            f"a pickle of {member.file_size:,} bytes",
            f"at most {MAX_PICKLE_BYTES:,}",
            "save only the layers to be audited",
        )
    return archive.read(member)


def check_instructions(path: str | Path, pickle: bytes) -> None:
    r"""List a pickle's instructions, without running them, and refuse any that is not for tensors.

    Args:
        path: The file, for the message.
        pickle: The pickle's bytes.

    Raises:
        InputError: The pickle names a class or function that no tensor needs.
        ValueError: It is no pickle.

    Example:
        >>> check_instructions("model.pt", b"cos\nsystem\n(S'ls'\ntR.")
        Traceback (most recent call last):
        gradaudit.errors.InputError: model.pt: found 'os.system' in its pickle, which was not ...
    """
    for instruction, argument, _ in pickletools.genops(pickle):
        if instruction.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
            raise InputError(
                str(path),
                "a pickle of an unusual protocol, which was not run",
                EXPECTED,
                _REMEDY + " (pickle_protocol left at its default)",
            )
        if instruction.name == "GLOBAL" and not _ALLOWED.fullmatch(str(argument)):
            name = str(argument).replace(" ", ".")
            remedy = _REMEDY
            if name.startswith("numpy"):
                remedy = "save torch tensors, not NumPy arrays, or use numpy.savez"
            if name.startswith("torch.storage"):
                remedy = "leave out tensors of unusual types, such as uint16, or convert them"
            raise InputError(
                str(path), f"{name[:80]!r} in its pickle, which was not run", EXPECTED, remedy
            )


def _plain(value: Any, check: Callable[[int], None]) -> Any:
    """Rebuild containers and tensors, without the attributes that a pickle may hang on them.

    Such an attribute can shadow a method (``items``, ``detach``); those called here are the
    classes' own. A pickle may also hold one list in many places: entries are counted as they are
    rebuilt.
    """
    seen = 0

    def rebuilt(value: Any, depth: int) -> Any:
        nonlocal seen
        if isinstance(value, Tensor):
            return Tensor.detach(value)
        if depth and isinstance(value, dict | list | tuple):
            seen += value.__len__()
            check(seen)
            if isinstance(value, dict):
                return {key: rebuilt(entry, depth - 1) for key, entry in dict.items(value)}
            return [rebuilt(entry, depth - 1) for entry in value]
        return value

    return rebuilt(value, 2)


def _check_version(path: str | Path) -> None:
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version < _SAFE_SINCE:
        raise InputError(
            str(path),
            f"a PyTorch archive, which PyTorch {torch.__version__} cannot open safely",
            "PyTorch 2.10 or newer (CVE-2026-24747)",
            "run: pip install 'torch>=2.10', or save the update as safetensors",
        )
