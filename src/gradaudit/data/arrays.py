"""Sources that are arrays already: digits, .npz files, torchvision's data sets."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Integer, Shaped

from gradaudit.data.images import check_normalisation, image_inputs, image_preprocessing
from gradaudit.data.source import RecordSet, Source
from gradaudit.errors import InputError, require
from gradaudit.npzfile import read_arrays
from gradaudit.preprocessing import Column, Preprocessing

MAX_CLASSES = 100_000


def digits(*, normalise: str | bool = "standard") -> Source:
    """The 1,797 handwritten digits of 8 x 8 pixels that scikit-learn ships.

    Args:
        normalise: ``"standard"``, or ``"unit"`` for pixels left in [0, 1].

    Raises:
        MissingExtraError: scikit-learn is not installed.

    Example:
        >>> digits().batch(10, labels="distinct").labels.sort().values
        tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    loaded = require("sklearn.datasets", "data").load_digits()
    images = loaded.images[..., np.newaxis] / 16.0
    return image_set("digits", images, loaded.target, normalise)


def npz_file(path: str | Path, *, normalise: str | bool = "standard") -> Source:
    """The arrays of an .npz file: ``images`` or ``features``, and ``labels``.

    Args:
        path: The file. Images are (n, h, w) or (n, h, w, c), channels last, of 0 to 255 if whole
            numbers, else of 0 to 1; features are (n, d); labels are whole numbers of 0 or more.
        normalise: ``"standard"``: mean 0 and deviation 1 per channel or feature; ``"unit"``: left
            as they are (pixels in [0, 1]).

    Raises:
        InputError: The file cannot be read (nothing is unpickled), unfolds to too much, or holds
            something else.
    """
    arrays = read_arrays(path)
    labels = arrays.get("labels")
    kinds = [kind for kind in ("images", "features") if kind in arrays]
    if labels is None or len(kinds) != 1:
        raise InputError(
            str(path),
            "the arrays " + (", ".join(arrays) or "none"),
            "'labels' and one of 'images' and 'features'",
        )
    records = arrays[kinds[0]]
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(
            f"{path} labels", f"shape {labels.shape} of {labels.dtype}", "whole numbers (n,)"
        )
    if records.ndim == 0 or len(records) != len(labels) or len(labels) == 0:
        raise InputError(
            str(path), f"{kinds[0]} {records.shape}, labels {labels.shape}", "one label a record"
        )
    if kinds[0] == "features":
        return _feature_set(str(path), records, labels, normalise)
    if records.ndim == 3:
        records = records[..., np.newaxis]
    return image_set(str(path), records, labels, normalise)


def torchvision_set(
    name: str,
    *,
    root: str | Path = "data",
    split: str = "train",
    limit: int = 10_000,
    normalise: str | bool = "standard",
) -> Source:
    """A data set of torchvision that is on disk already; nothing is downloaded.

    Args:
        name: A class of ``torchvision.datasets``, such as ``CIFAR10``.
        root: The folder it was downloaded to.
        split: Passed on as ``split``, or as ``train`` where the class has that.
        limit: Records read, from the first on.
        normalise: ``"standard"``, or ``"unit"`` for pixels left in [0, 1].

    Raises:
        InputError: No such data set, it is not in that folder, or its items are not images of one
            size with a class.
        MissingExtraError: torchvision is not installed.
    """
    datasets = require("torchvision.datasets", "torchvision")
    factory = getattr(datasets, name, None)
    if not isinstance(factory, type):
        raise InputError("data", repr(name), "a class of torchvision.datasets, such as CIFAR10")
    if limit < 1:
        raise InputError("limit", str(limit), "1 or more")
    known = inspect.signature(factory).parameters
    arguments: dict[str, Any] = {"download": False} if "download" in known else {}
    if "train" in known:
        arguments["train"] = split == "train"
    elif "split" in known:
        arguments["split"] = split
    try:
        dataset = factory(root=str(root), **arguments)
        items = [dataset[i] for i in range(min(limit, len(dataset)))]
        images = np.stack([np.atleast_3d(np.asarray(item[0])) for item in items])
        labels = np.asarray([int(item[1]) for item in items])
    except (RuntimeError, OSError, ValueError, TypeError, LookupError) as error:
        raise InputError(
            f"torchvision:{name}",
            f"nothing usable in {str(root)!r} ({error})",
            "a downloaded set of images of one size with one class each",
            "give its folder as root=...; this program downloads nothing",
        ) from error
    return image_set(
        f"torchvision:{name}", images, labels, normalise, getattr(dataset, "classes", ())
    )


def image_set(
    name: str,
    images: Shaped[np.ndarray, "n h w c"],
    labels: Integer[np.ndarray, " n"],
    normalise: str | bool = "standard",
    class_names: Sequence[str] = (),
) -> RecordSet:
    """A source of images in memory.

    Args:
        name: What it is, for a person and for errors.
        images: Pixels of 0 to 255 if whole numbers, else of 0 to 1, channels last.
        labels: Classes, 0 or more.
        normalise: ``"standard"`` or ``"unit"``.
        class_names: Names of the classes.

    Raises:
        InputError: Shapes or values are not those of images.
    """
    if images.ndim != 4 or 0 in images.shape or images.shape[-1] > 4:
        raise InputError(
            f"{name} images", f"shape {images.shape}", "(n, h, w) or (n, h, w, c), channels last"
        )
    whole = np.issubdtype(images.dtype, np.integer)
    if not whole and not np.issubdtype(images.dtype, np.floating):
        raise InputError(f"{name} images", str(images.dtype), "whole or floating-point numbers")
    low, high, top = images.min(), images.max(), 255 if whole else 1
    if not (low >= 0 and high <= top):
        raise InputError(f"{name} images", f"pixels from {low} to {high}", f"0 to {top}")
    classes = _count_classes(name, labels)
    _, height, width, channels = images.shape
    preprocessing = image_preprocessing(images, (channels, height, width), normalise, class_names)
    return RecordSet(
        name,
        labels,
        lambda indices: image_inputs(images[indices], preprocessing),
        preprocessing,
        max(classes, len(class_names)),
    )


def _feature_set(
    name: str,
    features: Shaped[np.ndarray, "n d"],
    labels: Integer[np.ndarray, " n"],
    normalise: str | bool,
) -> RecordSet:
    if features.ndim != 2 or 0 in features.shape:
        raise InputError(f"{name} features", f"shape {features.shape}", "(n, d)")
    if not np.issubdtype(features.dtype, np.number) or np.iscomplexobj(features):
        raise InputError(f"{name} features", str(features.dtype), "real numbers")
    values = features.astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"{name} features", "values that are nan or infinite", "finite numbers")
    mean, scale = np.zeros(values.shape[1]), np.ones(values.shape[1])
    if check_normalisation(normalise) == "standard":
        mean, scale = standardisation(values, f"{name} features")
    columns = tuple(
        Column(f"feature {i}", (), float(m), float(s))
        for i, (m, s) in enumerate(zip(mean, scale, strict=True))
    )
    return RecordSet(
        name,
        labels,
        lambda indices: (values[indices] - mean) / scale,
        Preprocessing(columns=columns),
        _count_classes(name, labels),
    )


def standardisation(
    values: Shaped[np.ndarray, "n d"], argument: str
) -> tuple[Shaped[np.ndarray, " d"], Shaped[np.ndarray, " d"]]:
    """Mean and population deviation of every column; 1 for a column that is constant.

    Raises:
        InputError: The values are too large for that.

    Example:
        >>> standardisation(np.array([[1.0, 5.0], [3.0, 5.0]]), "x")
        (array([2., 5.]), array([1., 1.]))
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = values.mean(axis=0), values.std(axis=0)
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
        raise InputError(argument, "values too large to standardise", "numbers below 1e150")
    # The deviation of a constant column is rounding error of the mean, not always exactly 0.
    constant = scale <= 1e-12 * np.abs(values).max(axis=0)
    return mean, np.where(constant, 1.0, scale)


def _count_classes(name: str, labels: Integer[np.ndarray, " n"]) -> int:
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= MAX_CLASSES:
        raise InputError(
            f"{name} labels", f"classes from {low} to {high}", f"0 to {MAX_CLASSES - 1}"
        )
    return high + 1
