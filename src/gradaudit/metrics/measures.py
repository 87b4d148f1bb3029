"""Which measures a truth allows, and on which scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from gradaudit.errors import MissingExtraError
from gradaudit.metrics.quality import SSIM_WINDOW, lpips, psnr, ssim
from gradaudit.truth import Truth


class Measures:
    """PSNR, SSIM and LPIPS of a pair, in the unit that suits the truth.

    Args:
        truth: What the client used.
        true: Its inputs as flat rows.
        structural: Whether SSIM is wanted.
        perceptual: LPIPS's backbone, if it is wanted.

    Attributes:
        data_range: R of the PSNR.
        range_meaning: What that range is, in words.
        notes: Which measures are missing, and why.

    Example:
        >>> import torch
        >>> truth = Truth(torch.tensor([[1.0, 5.0]]), torch.tensor([0]))
        >>> Measures(truth, truth.inputs.numpy(), True, None).data_range
        4.0
    """

    def __init__(
        self,
        truth: Truth,
        true: Float[np.ndarray, "b n"],
        structural: bool,
        perceptual: str | None,
    ) -> None:
        self.preprocessing = truth.preprocessing
        shape = None if self.preprocessing is None else self.preprocessing.image_shape
        self.is_image = shape is not None
        notes = []
        if shape is None:
            spread = float(true.max() - true.min())
            self.data_range = spread or 1.0
            self.range_meaning = (
                "network inputs, on the range that the true batch spans"
                if self.data_range == spread
                else "network inputs, on a range of 1, as all true values are equal"
            )
            notes.append("Records are not known to be images: no SSIM and no LPIPS.")
            structural, perceptual = False, None
        else:
            self.data_range, self.range_meaning = 1.0, "pixels in [0, 1]"
            if structural and min(shape[1:]) < SSIM_WINDOW:
                notes.append(f"Images are smaller than SSIM's window of {SSIM_WINDOW} pixels.")
                structural = False
        if structural:
            try:
                ssim(np.zeros((8, 8, 1)), np.zeros((8, 8, 1)))
            except MissingExtraError as error:
                notes.append(f"No SSIM: {error}.")
                structural = False
        self.structural, self.perceptual, self.notes = structural, perceptual, tuple(notes)

    def of(self, record: Float[np.ndarray, " n"], true: Float[np.ndarray, " n"]) -> dict[str, Any]:
        """The measures of one pair, by the names that `Pair` has for them."""
        if not self.is_image or self.preprocessing is None:
            return {"psnr": psnr(record, true, self.data_range)}
        ours, theirs = self.preprocessing.to_images(np.stack([record, true]))
        return {
            "psnr": psnr(ours, theirs, self.data_range),
            "ssim": _finite(ssim(ours, theirs)) if self.structural else None,
            "lpips": lpips(ours, theirs, self.perceptual) if self.perceptual else None,
        }


def _finite(value: float) -> float | None:
    """None for what is left of SSIM when a reconstruction is so wrong that it overflows."""
    return value if np.isfinite(value) else None
