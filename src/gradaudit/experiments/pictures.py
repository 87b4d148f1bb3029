"""Images as text, so that a table's row can hold one, and rows of images in a figure."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from gradaudit.errors import require
from gradaudit.report.images import to_pillow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of one image in a figure, beside its neighbour; captions need a fifth more in height.
INCHES = 0.9


def encode(pixels: Float[np.ndarray, "h w c"]) -> str:
    """An image as the base64 text of a PNG file.

    Args:
        pixels: 1.0 for white; clipped.

    Example:
        >>> decode(encode(np.ones((2, 3, 3)))).shape
        (2, 3, 3)
    """
    stored = io.BytesIO()
    to_pillow((pixels.clip(0, 1) * 255).round().astype(np.uint8)).save(stored, "PNG")
    return base64.b64encode(stored.getvalue()).decode()


def decode(text: str) -> np.ndarray:
    """The pixels, 255 for white."""
    images = require("PIL.Image", "report")
    return np.asarray(images.open(io.BytesIO(base64.b64decode(text))))


def draw_rows(figure: Figure, shown: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Rows of images below each other, each image under a caption.

    Args:
        figure: To draw in.
        shown: For the name of every row its images, as `encode` makes them, and captions; an empty
            image leaves its place empty.
    """
    columns = max(map(len, shown.values()))
    figure.set_size_inches(max(4.0, INCHES * columns), 1.2 * INCHES * len(shown) + 0.2)
    axes = figure.subplots(len(shown), columns, squeeze=False)
    for line, (name, images) in zip(axes, shown.items(), strict=True):
        for axis in line:
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_frame_on(False)
        for axis, (image, caption) in zip(line, images, strict=False):
            if image:
                axis.imshow(decode(image), cmap="gray", vmin=0, vmax=255)
            axis.set_title(caption, fontsize=6, pad=2)
        line[0].set_ylabel(name, fontsize=8)
