"""A folder of images, one subfolder a class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gradaudit.data.arrays import image_set
from gradaudit.data.images import read_image
from gradaudit.data.source import Source
from gradaudit.errors import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
MAX_BYTES = 2 * 2**30


def image_folder(
    path: str | Path, *, size: int = 32, channels: int = 3, normalise: str | bool = "standard"
) -> Source:
    """The images in a folder: subfolders are classes, in the order of their names.

    A folder without subfolders is one class. The largest square in the middle of every image is
    resized to the given side. Files whose suffix is not one of `SUFFIXES`, and hidden ones, are no
    images and are passed over; an image that cannot be read is an error.

    Args:
        path: The folder.
        size: Side of a network input in pixels.
        channels: 3 for colour, 1 for grey.
        normalise: ``"standard"``, or ``"unit"`` for pixels left in [0, 1].

    Raises:
        InputError: The folder holds no images, images beside subfolders, or broken images.
        MissingExtraError: Pillow is not installed.
    """
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 4096:
        raise InputError("size", repr(size), "1 to 4096 pixels")
    root = Path(path)
    if not root.is_dir():
        raise InputError(str(path), "no such folder", "a folder of images", "check the path")
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    loose = _images(root)
    if folders and loose:
        raise InputError(
            str(path),
            f"images beside subfolders, such as {loose[0].name!r}",
            "subfolders alone, one a class, or images alone",
            "move the images into subfolders",
        )
    files = [(file, label) for label, folder in enumerate(folders) for file in _images(folder)]
    files = files or [(file, 0) for file in loose]
    if not files:
        raise InputError(str(path), "no images", "files ending in " + ", ".join(SUFFIXES))
    if len(files) * size * size * channels > MAX_BYTES:
        raise InputError(
            str(path),
            f"{len(files):,} images of {size} x {size} pixels",
            f"at most {MAX_BYTES:,} bytes of them",
            "choose a smaller size or fewer images",
        )
    images = np.stack([read_image(file, channels, square=size) for file, _ in files])
    names = [folder.name for folder in folders] or [root.resolve().name]
    return image_set(str(path), images, np.asarray([label for _, label in files]), normalise, names)


def _images(folder: Path) -> list[Path]:
    return sorted(
        p
        for p in folder.iterdir()
        if p.suffix.lower() in SUFFIXES and not p.name.startswith(".") and p.is_file()
    )
