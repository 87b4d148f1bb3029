"""Reading .npz archives of named tensors."""

from __future__ import annotations

from pathlib import Path

import torch

from gradaudit.capture.contents import Contents
from gradaudit.hostile import reading
from gradaudit.npzfile import EXPECTED, read_arrays
from gradaudit.tensorfile import check_file


def read_numpy(path: str | Path) -> Contents:
    """Read an archive written by ``numpy.savez`` or ``numpy.savez_compressed``.

    Args:
        path: The file.

    Raises:
        InputError: As `gradaudit.npzfile.read_arrays`, or torch has no such type of numbers.
    """
    size = check_file(path)
    arrays = read_arrays(path)
    with reading(path, EXPECTED):
        entries = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return Contents(str(path), entries, size)
