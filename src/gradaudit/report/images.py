"""Recovered images as they are displayed: pixels, redaction, fingerprints and data URIs."""

from __future__ import annotations

import base64
import hashlib
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Shaped, UInt8

from gradaudit.errors import require
from gradaudit.preprocessing import Preprocessing

# Cells a side that a redacted image is averaged to, and the pixels that a cell covers at least:
# four by four cells of an 8 x 8 digit would still be the digit.
REDACTED_CELLS = 4
PIXELS_PER_CELL = 4

# Pixels this far outside black and white are called out of range; less is rounding.
RANGE_TOLERANCE = 0.01


@dataclass(frozen=True, eq=False)
class DisplayImages:
    """Images ready to be shown, and what had to be done to them.

    Attributes:
        pixels: Bytes, channels last, one channel (grey) or three.
        not_finite: Per image, values that are nan or infinite, shown grey.
        clipped: Per image, the share of the other values beyond black or white.
        note: What was done to all of them, in words; empty for nothing.
    """

    pixels: UInt8[np.ndarray, "b h w c"]
    not_finite: tuple[int, ...]
    clipped: tuple[float, ...]
    note: str


def display_images(
    records: Shaped[np.ndarray, "b ..."],
    preprocessing: Preprocessing,
    *,
    scale_identified: bool = True,
) -> DisplayImages:
    """Turn network inputs into pixels that can be shown.

    A record known up to a positive factor only is scaled to a root mean square of 1 where the
    preprocessing standardises, as standardised inputs have it, and to a largest value of 1 where
    pixels are used as they are.

    Args:
        records: Network inputs, flat or channels first.
        preprocessing: Says how they were normalised; must be of images.
        scale_identified: False when each record is right up to a positive factor.

    Returns:
        The images; nothing is left out silently.

    Raises:
        InputError: The preprocessing is not of images, or of a different size.

    Example:
        >>> grey = Preprocessing(image_shape=(1, 1, 2))
        >>> display_images(np.array([[0.0, 3.0]]), grey).clipped
        (0.5,)
    """
    values = np.asarray(records, dtype=np.float64).reshape(len(records), -1)
    notes = []
    if not scale_identified:
        values = _standard_scale(values, standardised=bool(preprocessing.mean))
        notes.append("The brightness scale of each image is chosen for display.")
    images = preprocessing.to_images(values)
    if images.shape[-1] not in (1, 3):
        notes.append(f"Shown is the mean of the {images.shape[-1]} channels.")
        images = images.mean(axis=-1, keepdims=True)
    finite = np.isfinite(images)
    outside = finite & ((images < -RANGE_TOLERANCE) | (images > 1 + RANGE_TOLERANCE))
    pixels = np.clip(np.where(finite, images, 0.5), 0.0, 1.0)
    axes = (1, 2, 3)
    return DisplayImages(
        pixels=np.round(pixels * 255).astype(np.uint8),
        not_finite=tuple(int(n) for n in (~finite).sum(axis=axes)),
        clipped=tuple(float(s) for s in outside.sum(axis=axes) / np.maximum(finite.sum(axes), 1)),
        note=" ".join(notes),
    )


def _standard_scale(
    values: Float64[np.ndarray, "b n"], *, standardised: bool
) -> Float64[np.ndarray, "b n"]:
    sizes = np.abs(np.where(np.isfinite(values), values, 0.0))
    norms = np.sqrt((sizes**2).mean(axis=1)) if standardised else sizes.max(axis=1)
    return values / np.where(norms > 0, norms, 1.0)[:, None]


def redact(image: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "rows columns c"]:
    """Average an image to at most four by four cells, of at least four by four pixels each.

    The result is that small, so that nothing else of the image is in a file that holds it.

    Example:
        >>> redact(np.zeros((32, 32, 3), dtype=np.uint8)).shape
        (4, 4, 3)
    """
    for axis in (0, 1):
        cells = max(1, min(REDACTED_CELLS, image.shape[axis] // PIXELS_PER_CELL))
        parts = np.array_split(image.astype(np.float64), cells, axis=axis)
        image = np.stack([part.mean(axis=axis) for part in parts], axis=axis)
    return np.round(image).astype(np.uint8)


def fingerprint(content: Shaped[np.ndarray, " *shape"], key: str) -> str:
    """Keyed digest of a record as displayed, to compare records across reports without seeing them.

    Bytes of pixels are compared, not floating-point numbers, since two searches recover the same
    image with different rounding.

    Args:
        content: The record, already rounded to what is to count as equal.
        key: Two reports are comparable when they share it.

    Returns:
        Twelve hex digits of HMAC-like keyed BLAKE2.

    Example:
        >>> fingerprint(np.zeros(4, dtype=np.uint8), "a") == fingerprint(np.zeros(4), "a")
        False
    """
    # The key is hashed first because BLAKE2 takes at most 64 bytes of it.
    digest = hashlib.blake2b(
        key=hashlib.sha256(key.encode("utf-8", "backslashreplace")).digest(), digest_size=6
    )
    digest.update(f"{content.dtype}:{content.shape}".encode())
    digest.update(np.ascontiguousarray(content).tobytes())
    return digest.hexdigest()


def data_uri(data: bytes, kind: str) -> str:
    """Bytes as a ``data:`` URI.

    Example:
        >>> data_uri(b"<svg/>", "image/svg+xml")
        'data:image/svg+xml;base64,PHN2Zy8+'
    """
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def png_uri(image: UInt8[np.ndarray, "h w c"]) -> str:
    """An image as a PNG ``data:`` URI, one pixel a pixel; the page scales it up.

    Raises:
        MissingExtraError: pillow is not installed.
    """
    stream = io.BytesIO()
    to_pillow(image).save(stream, format="PNG", optimize=True)
    return data_uri(stream.getvalue(), "image/png")


def to_pillow(image: UInt8[np.ndarray, "h w c"]) -> Any:
    """The image as pillow's, grey or RGB.

    Raises:
        MissingExtraError: pillow is not installed.
    """
    pillow = require("PIL.Image", "report")
    return pillow.fromarray(image[..., 0] if image.shape[-1] == 1 else image)


def rounded_row(row: Mapping[str, float | str]) -> UInt8[np.ndarray, " bytes"]:
    """A table's row as comparable bytes: numbers to four significant digits.

    Example:
        >>> bytes(rounded_row({"age": 38.9999999, "sex": "f"}))
        b"[('age', '39'), ('sex', 'f')]"
    """
    items = [
        (name, value if isinstance(value, str) else f"{value + 0.0:.4g}")
        for name, value in row.items()
    ]
    return np.frombuffer(repr(items).encode("utf-8", "backslashreplace"), dtype=np.uint8)


def significant(vector: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """A plain vector rounded to four digits of its largest value.

    Example:
        >>> significant(np.array([1234.56, 0.2])).tolist()
        [1235.0, 0.0]
    """
    largest = float(np.abs(vector[np.isfinite(vector)]).max(initial=0.0))
    if largest == 0:
        return vector
    # Adding zero turns a negative zero into a positive one, which has other bytes.
    return np.round(vector, 3 - math.floor(math.log10(largest))) + 0.0
