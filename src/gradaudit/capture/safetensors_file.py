"""Reading safetensors: this package's own layout or any file of named tensors."""

from __future__ import annotations

from pathlib import Path

from gradaudit.capture.contents import Contents
from gradaudit.hostile import reading
from gradaudit.tensorfile import check_file, read_tensors


def read_safetensors(path: str | Path) -> Contents:
    """Read a safetensors file; its header is checked by the safetensors library.

    Args:
        path: The file.

    Raises:
        InputError: The header or the offsets do not describe the file.
    """
    size = check_file(path)
    with reading(path, "a safetensors file"):
        tensors, metadata = read_tensors(path)
    return Contents(str(path), tensors, size, metadata, keeps_order=False)
