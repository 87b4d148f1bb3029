"""Natural patches cut from the photos that scikit-image and scikit-learn ship in their wheels."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from gradaudit.data.images import image_inputs, image_preprocessing, read_image
from gradaudit.data.source import Batch, Source, check_request
from gradaudit.errors import InputError, require
from gradaudit.randomness import make_generator

# Photos in the wheels themselves: package, folder, file. The order gives the labels. One of the
# motorcycle pair only, as both show one scene.
PHOTOS = (
    ("skimage", "data", "astronaut.png"),
    ("skimage", "data", "chelsea.png"),
    ("skimage", "data", "coffee.png"),
    ("skimage", "data", "hubble_deep_field.jpg"),
    ("skimage", "data", "ihc.png"),
    ("skimage", "data", "motorcycle_left.png"),
    ("skimage", "data", "retina.jpg"),
    ("skimage", "data", "rocket.jpg"),
    ("sklearn", "datasets/images", "china.jpg"),
    ("sklearn", "datasets/images", "flower.jpg"),
)
TEST_PHOTOS = ("coffee", "rocket", "china")
SPLITS = ("all", "train", "test")

# A patch of clear sky is no record to speak of, and two of them would look like one.
MIN_CONTRAST = 0.03
_MAX_DRAWS = 1_000


def patches(
    size: int = 32,
    *,
    split: str = "all",
    channels: int = 3,
    contrast: float = MIN_CONTRAST,
    normalise: str | bool = "standard",
) -> Source:
    """Square patches at random places of ten photos; a patch's label is its photo's number.

    The photos are files inside installed packages: nothing is downloaded. The split is by photo:
    no photo gives patches to both ``"train"`` and ``"test"`` (`TEST_PHOTOS`). Mean and standard
    deviation are those of the training photos in either split; labels keep their numbers.

    Args:
        size: Side of a patch in pixels, 2 to 300.
        split: ``"all"``, ``"train"`` or ``"test"``.
        channels: 3 for colour, 1 for grey.
        contrast: Patches in which every channel deviates less than this from its mean, in the root
            mean square of pixels in [0, 1], are drawn again; 0 to 0.5.
        normalise: ``"standard"``, or ``"unit"`` for pixels left in [0, 1].

    Raises:
        InputError: An argument cannot be used.
        MissingExtraError: Pillow, scikit-image or scikit-learn is not installed.

    Example:
        >>> patches(8).batch(4, seed=1).inputs.shape
        torch.Size([4, 3, 8, 8])
    """
    if isinstance(size, bool) or not isinstance(size, int) or not 2 <= size <= 300:
        raise InputError("size", repr(size), "2 to 300 pixels, the smallest photo's side")
    if split not in SPLITS:
        raise InputError("split", repr(split), "one of " + ", ".join(SPLITS))
    # The largest deviation is that of pixels half of which are 0 and half 1.
    if not 0 <= contrast <= 0.5:
        raise InputError("contrast", repr(contrast), "0 to 0.5")
    return _Patches(size, split, channels, contrast, normalise)


class _Patches:
    def __init__(
        self, size: int, split: str, channels: int, contrast: float, normalise: str | bool
    ) -> None:
        names = [Path(file).stem for _, _, file in PHOTOS]
        photos = [_photo(photo, channels) for photo in PHOTOS]
        self.name = f"patches ({split})"
        self.classes = len(PHOTOS)
        self.preprocessing = image_preprocessing(
            (p for p, name in zip(photos, names, strict=True) if name not in TEST_PHOTOS),
            (channels, size, size),
            normalise,
            names,
        )
        self._size = size
        self._min_contrast = contrast
        self._photos = {
            label: photo
            for label, photo in enumerate(photos)
            if split == "all" or (names[label] in TEST_PHOTOS) == (split == "test")
        }

    def batch(
        self,
        batch_size: int,
        *,
        generator: torch.Generator | None = None,
        seed: int = 0,
        label: int | None = None,
        labels: str = "random",
        dtype: torch.dtype = torch.float64,
    ) -> Batch:
        """Draw different patches; see `Source.batch`."""
        check_request(batch_size, label, labels, self.classes)
        self._check_count(batch_size, label)
        randomness = make_generator(generator, seed)
        chosen = self._labels(batch_size, label, labels, randomness)
        taken: set[tuple[int, int, int]] = set()
        cut = [self._cut(number, taken, randomness) for number in chosen]
        inputs = torch.as_tensor(image_inputs(np.stack(cut), self.preprocessing))
        return Batch(inputs.to(dtype), torch.tensor(chosen), self.preprocessing)

    def _check_count(self, batch_size: int, label: int | None) -> None:
        places = {
            number: math.prod(side - self._size + 1 for side in photo.shape[:2])
            for number, photo in self._photos.items()
        }
        # A label without a photo is refused by name, later.
        total = sum(places.values()) if label is None else places.get(label, batch_size)
        if batch_size > total:
            of = self.name if label is None else f"photo {label}"
            raise InputError(
                "batch_size", str(batch_size), f"at most the {total:,} different patches of {of}"
            )

    def _labels(
        self, batch_size: int, label: int | None, labels: str, generator: torch.Generator
    ) -> list[int]:
        available = sorted(self._photos)
        if label is not None:
            if label not in available:
                raise InputError("label", str(label), f"one of {available} in {self.name}")
            return [label] * batch_size
        if labels == "distinct":
            if batch_size > len(available):
                raise InputError(
                    "batch_size", str(batch_size), f"at most the {len(available)} photos"
                )
            order = torch.randperm(len(available), generator=generator)[:batch_size]
        else:
            order = torch.randint(len(available), (batch_size,), generator=generator)
        return [available[int(i)] for i in order]

    def _cut(
        self, label: int, taken: set[tuple[int, int, int]], generator: torch.Generator
    ) -> UInt8[np.ndarray, "h w c"]:
        photo = self._photos[label]
        height, width = photo.shape[0] - self._size + 1, photo.shape[1] - self._size + 1
        for _ in range(_MAX_DRAWS):
            top = int(torch.randint(height, (), generator=generator))
            left = int(torch.randint(width, (), generator=generator))
            patch = photo[top : top + self._size, left : left + self._size]
            if (label, top, left) in taken or _contrast(patch) < self._min_contrast:
                continue
            taken.add((label, top, left))
            return patch
        raise InputError(
            "batch_size",
            f"more different patches of photo {label} than are easily found",
            "fewer or smaller patches, or less contrast",
        )


def _contrast(patch: UInt8[np.ndarray, "h w c"]) -> float:
    """Deviation of the pixels over the patch in the channel where it is largest."""
    return float(patch.std(axis=(0, 1)).max()) / 255


@lru_cache(maxsize=2 * len(PHOTOS))
def _photo(photo: tuple[str, str, str], channels: int) -> UInt8[np.ndarray, "h w c"]:
    package, folder, file = photo
    root = require(package, "data").__file__
    assert root is not None  # noqa: S101 - both packages are folders with an __init__.py
    return read_image(Path(root).parent / folder / file, channels)
