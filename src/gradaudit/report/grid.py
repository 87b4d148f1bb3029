"""Recovered images, with or without their originals, as one PNG file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.report.images import display_images, to_pillow
from gradaudit.report.originals import match_originals
from gradaudit.tensorfile import replacing
from gradaudit.truth import Truth

# Small images are enlarged by a whole factor to about this many pixels.
CELL = 96
GAP = 6
# Between a recovered image and its original, so that pairs read as pairs.
INNER_GAP = 2


def record_grid(
    records: Float[Tensor, "b n"],
    preprocessing: Preprocessing,
    path: str | Path,
    *,
    truth: Truth | None = None,
    columns: int = 8,
) -> None:
    """Write recovered images as a PNG grid, not redacted.

    With a truth, the original lies directly under each recovered image; a record without a
    counterpart has an empty place there.

    Args:
        records: Network inputs, one a row.
        preprocessing: Says how they were normalised; must be of images.
        path: The PNG file to write or replace.
        truth: The originals of a simulated client.
        columns: Images a row, at least one.

    Raises:
        InputError: There are no records, or they are not of that image shape.
        MissingExtraError: pillow is not installed.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     grey = Preprocessing(image_shape=(1, 8, 8))
        ...     record_grid(torch.rand(3, 64), grey, f"{folder}/grid.png", columns=2)
        ...     Path(f"{folder}/grid.png").read_bytes()[1:4]
        b'PNG'
    """
    if not isinstance(columns, int) or columns < 1:
        raise InputError("columns", repr(columns), "a positive whole number")
    if not len(records):
        raise InputError("records", "none", "at least one record")
    values = records.detach().cpu().double().reshape(len(records), -1).numpy()
    rows = [_enlarged(display_images(values, preprocessing).pixels)]
    if truth is not None:
        originals = match_originals(records, truth, preprocessing)
        real = _enlarged(display_images(originals.inputs, preprocessing).pixels)
        empty = np.full_like(rows[0][0], 255)
        places = [originals.index(index) for index in range(len(records))]
        rows.append(np.stack([empty if place is None else real[place] for place in places]))
    sheet = _sheet(rows, min(columns, len(records)))
    with replacing(path) as temporary:
        to_pillow(sheet).save(temporary, format="PNG", optimize=True)


def _enlarged(pixels: UInt8[np.ndarray, "b h w c"]) -> UInt8[np.ndarray, "b hh ww c"]:
    factor = max(1, round(CELL / max(pixels.shape[1:3])))
    return pixels.repeat(factor, axis=1).repeat(factor, axis=2)


def _sheet(
    rows: list[UInt8[np.ndarray, "b h w c"]], columns: int
) -> UInt8[np.ndarray, "height width c"]:
    number, height, width, channels = rows[0].shape
    block = len(rows) * height + (len(rows) - 1) * INNER_GAP
    lines = -(-number // columns)
    shape = (lines * (block + GAP) + GAP, columns * (width + GAP) + GAP, channels)
    sheet = np.full(shape, 255, dtype=np.uint8)
    for index in range(number):
        line, column = divmod(index, columns)
        left = GAP + column * (width + GAP)
        for place, images in enumerate(rows):
            top = GAP + line * (block + GAP) + place * (height + INNER_GAP)
            sheet[top : top + height, left : left + width] = images[index]
    return sheet
