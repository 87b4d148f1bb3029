"""Reading images safely, and the normalisation that turns pixels into network inputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from gradaudit.errors import InputError, require
from gradaudit.hostile import reading
from gradaudit.preprocessing import Preprocessing
from gradaudit.tensorfile import check_file

NORMALISATIONS = ("standard", "unit")

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")

# Larger images are refused before they are decoded.
MAX_PIXELS = 64 * 2**20


def check_normalisation(normalise: str | bool) -> str:
    """One of `NORMALISATIONS`; true and false stand for ``standard`` and ``unit``.

    Raises:
        InputError: It is neither.

    Example:
        >>> check_normalisation(False)
        'unit'
    """
    text = str(normalise).lower()
    text = {"true": "standard", "false": "unit"}.get(text, text)
    if text not in NORMALISATIONS:
        raise InputError("normalise", repr(normalise), "standard or unit")
    return text


def read_image(
    path: str | Path, channels: int = 3, square: int | None = None
) -> UInt8[np.ndarray, "h w c"]:
    """Read an image file, upright.

    Args:
        path: A file in a format that Pillow reads, 8 bits a channel.
        channels: 3 for colour, 1 for grey.
        square: Cut out the largest square in the middle and resize it to this side.

    Returns:
        Pixels, 0 to 255.

    Raises:
        InputError: The file is broken, too large, or not of 8 bits.
        MissingExtraError: Pillow is not installed.
    """
    image_module, operations = require("PIL.Image", "data"), require("PIL.ImageOps", "data")
    if channels not in (1, 3):
        raise InputError("channels", repr(channels), "1 (grey) or 3 (colour)")
    check_file(path)
    with reading(path, "a readable image file"):
        warnings.simplefilter("error", image_module.DecompressionBombWarning)
        # Pillow tells a format by its content, and some are programs.
        with image_module.open(path, formats=FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise InputError(
                    str(path), f"{width} x {height} pixels", f"at most {MAX_PIXELS:,} pixels"
                )
            if image.mode[0] in "IF":
                raise InputError(str(path), f"pixels of mode {image.mode}", "8-bit pixels")
            operations.exif_transpose(image, in_place=True)
            upright = image.convert("L" if channels == 1 else "RGB")
            if square is not None:
                upright = operations.fit(upright, (square, square), image_module.Resampling.BICUBIC)
            pixels = np.asarray(upright, dtype=np.uint8)
    return pixels.reshape(*pixels.shape[:2], channels)


def image_preprocessing(
    images: Iterable[Shaped[np.ndarray, "h w c"]],
    shape: tuple[int, int, int],
    normalise: str | bool,
    class_names: Sequence[str] = (),
) -> Preprocessing:
    """The preprocessing whose mean and standard deviation are those of the images' pixels.

    Args:
        images: What to measure: pixels of 0 to 255 if whole numbers, else of 0 to 1.
        shape: (channels, height, width) of a network input.
        normalise: ``"standard"``, or ``"unit"`` for pixels left in [0, 1].
        class_names: Names of the labels.

    Raises:
        InputError: No such normalisation.

    Example:
        >>> black_and_white = [np.array([[[0], [255]]], dtype=np.uint8)]
        >>> image_preprocessing(black_and_white, (1, 1, 2), "standard").std
        (0.5,)
    """
    if check_normalisation(normalise) == "unit":
        return Preprocessing(image_shape=shape, class_names=tuple(class_names))
    channels = shape[0]
    count, total, squares = 0, np.zeros(channels), np.zeros(channels)
    for image in images:
        pixels = unit_pixels(image).reshape(-1, channels)
        count += len(pixels)
        total += pixels.sum(axis=0)
        squares += (pixels**2).sum(axis=0)
    mean = total / count
    variance = squares / count - mean**2
    # A channel that never changes carries nothing to scale; below 1e-12 is rounding.
    std = np.sqrt(np.where(variance > 1e-12, variance, 1.0))
    return Preprocessing(
        image_shape=shape,
        mean=tuple(mean.tolist()),
        std=tuple(std.tolist()),
        class_names=tuple(class_names),
    )


def unit_pixels(images: Shaped[np.ndarray, " ..."]) -> Float[np.ndarray, " ..."]:
    """Pixels in [0, 1], float64; whole numbers are taken as 0 to 255."""
    pixels = np.asarray(images, dtype=np.float64)
    return pixels / 255.0 if np.issubdtype(images.dtype, np.integer) else pixels


def image_inputs(
    images: Shaped[np.ndarray, "b h w c"], preprocessing: Preprocessing
) -> Float[np.ndarray, "b c h w"]:
    """Network inputs of images; `Preprocessing.to_images` is the way back.

    Example:
        >>> plain = Preprocessing(image_shape=(1, 1, 2))
        >>> image_inputs(np.array([[[[0], [255]]]], dtype=np.uint8), plain)
        array([[[[0., 1.]]]])
    """
    pixels = unit_pixels(images)
    if preprocessing.mean:
        pixels = (pixels - np.asarray(preprocessing.mean)) / np.asarray(preprocessing.std)
    return np.ascontiguousarray(np.moveaxis(pixels, -1, 1))
