"""How alike two records are: PSNR for any, SSIM and LPIPS for images."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from gradaudit.errors import InputError, require

# The relative spacing of float64, 2^-52. Errors below it are rounding of the comparison itself.
_SPACING = float(np.spacing(1.0))

# What an exact match scores, in dB: 20 log10(2^52), about 313.07.
MAX_PSNR = float(-20 * np.log10(_SPACING))

# SSIM's window in scikit-image, and the least side of an image that it fits into.
SSIM_WINDOW = 7

# The ImageNet weights that torchvision stores for LPIPS's backbone.
_LPIPS_BACKBONES = {"alex": "alexnet-owt-7be5be79.pth", "vgg": "vgg16-397923af.pth"}


def psnr(
    record: Float[np.ndarray, " ..."], truth: Float[np.ndarray, " ..."], data_range: float
) -> float:
    """Peak signal-to-noise ratio: 10 log10(R^2 / MSE), in dB.

    The MSE is taken as at least (R * 2^-52)^2, the squared spacing of float64 at the range R: an
    exact match then scores `MAX_PSNR`, about 313 dB, and not infinity, which would swallow every
    mean it is part of.

    Args:
        record: The reconstruction.
        truth: The true record, of the same shape.
        data_range: R, the distance between the least and largest possible value; positive.

    Example:
        >>> psnr(np.full(4, 0.1), np.zeros(4), 1.0)
        20.0
        >>> round(psnr(np.ones(4), np.ones(4), 1.0), 2)
        313.07
    """
    with np.errstate(over="ignore"):
        difference = (np.asarray(record) - np.asarray(truth)) / data_range
        error = float(np.mean(difference**2))
    error = min(max(error, _SPACING**2), float(np.finfo(np.float64).max))
    return float(-10 * np.log10(error))


def ssim(record: Float[np.ndarray, "h w c"], truth: Float[np.ndarray, "h w c"]) -> float:
    """Structural similarity of two images in [0, 1] (Wang et al. 2004), as scikit-image has it.

    Args:
        record: The reconstruction, channels last.
        truth: The true image; sides of at least `SSIM_WINDOW`.

    Raises:
        MissingExtraError: scikit-image is not installed.

    Example:
        >>> round(ssim(np.eye(8)[..., None], np.eye(8)[..., None]), 12)
        1.0
    """
    metrics = require("skimage.metrics", "metrics")
    with np.errstate(all="ignore"):
        return float(
            metrics.structural_similarity(
                truth, record, data_range=1.0, channel_axis=-1, win_size=SSIM_WINDOW
            )
        )


def lpips(
    record: Float[np.ndarray, "h w c"], truth: Float[np.ndarray, "h w c"], network: str = "alex"
) -> float:
    """Learned perceptual distance of two images in [0, 1] (Zhang et al., arXiv 1801.03924).

    The backbone's weights must be in torch's cache: nothing is downloaded. Pixels are clipped to
    [0, 1], as the network knows no others; grey images are repeated to three channels.

    Args:
        record: The reconstruction, channels last.
        truth: The true image.
        network: ``"alex"`` or ``"vgg"``.

    Raises:
        InputError: The weights are not in the cache, or the images are too small.
        MissingExtraError: torchmetrics or torchvision is not installed.
    """
    if network not in _LPIPS_BACKBONES:
        raise InputError("lpips", repr(network), "one of " + ", ".join(_LPIPS_BACKBONES))
    functional = require("torchmetrics.functional.image", "lpips")
    require("torchvision", "lpips")
    weights = Path(torch.hub.get_dir()) / "checkpoints" / _LPIPS_BACKBONES[network]
    if not weights.is_file():
        raise InputError(
            "lpips",
            f"no {weights.name} in torch's cache",
            "the backbone's weights on disk, as nothing is downloaded",
            f"put the file into {weights.parent}",
        )
    images = [
        torch.as_tensor(np.clip(image, 0.0, 1.0), dtype=torch.float32).permute(2, 0, 1)[None]
        for image in (record, truth)
    ]
    images = [image.expand(-1, 3, -1, -1) if image.shape[1] == 1 else image for image in images]
    try:
        with torch.no_grad(), warnings.catch_warnings():
            # torchvision and torchmetrics warn about their own deprecated arguments.
            warnings.simplefilter("ignore")
            distance = functional.learned_perceptual_image_patch_similarity(
                *images, net_type=network, normalize=True
            )
    except (RuntimeError, ValueError) as error:
        raise InputError(
            "lpips",
            f"images of shape {record.shape} that the network refuses ({error})",
            "colour or grey images of about 32 x 32 pixels or more",
        ) from error
    return float(distance)
