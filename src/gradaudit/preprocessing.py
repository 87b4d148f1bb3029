"""How records were turned into network inputs, so that recovered inputs can be shown as records.

A preprocessing is public knowledge (the training code says it), not ground truth: an attacker has
it, and an auditor needs it to show recovered rows in their original columns and units.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from gradaudit.errors import InputError

# Of a record; no network takes that many.
MAX_FEATURES = 2**40


@dataclass(frozen=True)
class Column:
    """One original column of a table.

    Attributes:
        name: The column's name.
        categories: The categories in one-hot order, or empty for a numeric column.
        mean: What was subtracted from a numeric column.
        scale: What a numeric column was then divided by.
    """

    name: str
    categories: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    @property
    def width(self) -> int:
        """Network inputs that this column takes."""
        return len(self.categories) or 1


@dataclass(frozen=True)
class Preprocessing:
    """The invertible map from a record to a network input.

    Exactly one of ``image_shape`` and ``columns`` may be given; with neither, records are plain
    vectors. Images: ``input = (pixel - mean[c]) / std[c]``, pixels in [0, 1], channels first.
    Tables: numeric columns are ``(value - mean) / scale``, the others one-hot.

    Attributes:
        image_shape: (channels, height, width), or None.
        mean: Per channel, subtracted from pixels in [0, 1].
        std: Per channel, then divided by.
        columns: The table's columns in input order, or empty.
        class_names: Names of the labels, if known.

    Raises:
        InputError: The parts contradict each other.

    Example:
        >>> grey = Preprocessing(image_shape=(1, 2, 2), mean=(0.5,), std=(0.25,))
        >>> float(grey.to_images(np.zeros((1, 4)))[0, 0, 0, 0])
        0.5
    """

    image_shape: tuple[int, int, int] | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    columns: tuple[Column, ...] = ()
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.image_shape is not None and self.columns:
            raise InputError("preprocessing", "an image shape and columns", "one of the two")
        if self.image_shape is not None and (
            len(self.image_shape) != 3 or min(self.image_shape) < 1
        ):
            raise InputError(
                "preprocessing.image_shape",
                str(self.image_shape),
                "three positive numbers: channels, height, width",
            )
        if self.image_shape is not None and math.prod(self.image_shape) > MAX_FEATURES:
            # Python writes no number of more than some thousands of digits.
            found = "a shape of more values"
            raise InputError("preprocessing.image_shape", found, f"at most {MAX_FEATURES:,}")
        channels = self.image_shape[0] if self.image_shape else 0
        for name in ("mean", "std"):
            values = getattr(self, name)
            if values and len(values) != channels:
                raise InputError(
                    f"preprocessing.{name}", f"{len(values)} values", f"one per channel, {channels}"
                )
            if any(not math.isfinite(value) for value in values):
                raise InputError(f"preprocessing.{name}", str(values), "finite numbers")
        if any(value <= 0 for value in self.std):
            raise InputError("preprocessing.std", str(self.std), "positive numbers")

    @property
    def features(self) -> int | None:
        """Length of a network input, or None when any length goes."""
        if self.image_shape is not None:
            return math.prod(self.image_shape)
        return sum(column.width for column in self.columns) or None

    def _flat(self, records: Shaped[np.ndarray, "b ..."]) -> Float[np.ndarray, "b n"]:
        flat = np.asarray(records, dtype=np.float64).reshape(len(records), -1)
        if self.features is not None and flat.shape[1] != self.features:
            raise InputError(
                "records",
                f"{flat.shape[1]} features",
                f"{self.features}, as the preprocessing says",
                "give the preprocessing of this network's input",
            )
        return flat

    def to_images(self, records: Shaped[np.ndarray, "b ..."]) -> Float[np.ndarray, "b h w c"]:
        """Undo the normalisation and put channels last.

        Args:
            records: Network inputs, flat or channels first.

        Returns:
            Pixels, 1.0 for white; not clipped, so that a wrong reconstruction stays visible.

        Raises:
            InputError: This preprocessing is not of images, or the feature count differs.
        """
        if self.image_shape is None:
            raise InputError("preprocessing", "no image shape", "an image shape")
        channels = self.image_shape[0]
        images = self._flat(records).reshape(-1, *self.image_shape)
        std = np.asarray(self.std or (1.0,) * channels).reshape(1, channels, 1, 1)
        mean = np.asarray(self.mean or (0.0,) * channels).reshape(1, channels, 1, 1)
        return np.moveaxis(images * std + mean, 1, -1)

    def input_range(
        self, shape: Sequence[int]
    ) -> tuple[Float[np.ndarray, " ..."], Float[np.ndarray, " ..."]] | None:
        """Least and largest value that each entry of an input can have, if it is an image's.

        Args:
            shape: Of a network input.

        Returns:
            Where black and white pixels come to lie; None for other records than images of this
            many features.

        Example:
            >>> grey = Preprocessing(image_shape=(1, 1, 2), mean=(0.5,), std=(0.25,))
            >>> [bound.tolist() for bound in grey.input_range((2,))]
            [[-2.0, -2.0], [2.0, 2.0]]
        """
        if self.image_shape is None or self.features != math.prod(shape):
            return None
        channels = self.image_shape[0]
        std = np.asarray(self.std or (1.0,) * channels)[:, None, None]
        mean = np.asarray(self.mean or (0.0,) * channels)[:, None, None]
        low, high = (
            np.broadcast_to((pixel - mean) / std, self.image_shape).reshape(tuple(shape)).copy()
            for pixel in (0.0, 1.0)
        )
        return low, high

    def to_rows(self, records: Shaped[np.ndarray, "b ..."]) -> list[dict[str, float | str]]:
        """Show network inputs as rows in the original columns and units.

        Args:
            records: Network inputs.

        Returns:
            One mapping a record, from column name to a number or a category.

        Raises:
            InputError: This preprocessing is not of a table, or the feature count differs.
        """
        if not self.columns:
            raise InputError("preprocessing", "no columns", "columns")
        rows: list[dict[str, float | str]] = []
        for record in self._flat(records):
            row: dict[str, float | str] = {}
            start = 0
            for column in self.columns:
                part = record[start : start + column.width]
                if column.categories:
                    row[column.name] = column.categories[int(part.argmax())]
                else:
                    row[column.name] = float(part[0] * column.scale + column.mean)
                start += column.width
            rows.append(row)
        return rows

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready mapping that `from_json` reads back."""
        return asdict(self)

    def to_text(self) -> str:
        """`to_json` as text, for a file's metadata."""
        return json.dumps(self.to_json(), sort_keys=True)

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | str) -> Preprocessing:
        """Read what `to_json` wrote, as a mapping or as text.

        Raises:
            InputError: It is not such a mapping.
        """
        try:
            fields = json.loads(value) if isinstance(value, str) else value
            shape = fields.get("image_shape")
            return cls(
                image_shape=None if shape is None else _triple(shape),
                mean=tuple(float(v) for v in fields.get("mean", ())),
                std=tuple(float(v) for v in fields.get("std", ())),
                columns=tuple(
                    Column(
                        str(column["name"]),
                        tuple(str(c) for c in column.get("categories", ())),
                        float(column.get("mean", 0.0)),
                        float(column.get("scale", 1.0)),
                    )
                    for column in fields.get("columns", ())
                ),
                class_names=tuple(str(name) for name in fields.get("class_names", ())),
            )
        except InputError:
            raise
        except (
            AttributeError,
            KeyError,
            OverflowError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise InputError(
                "preprocessing",
                f"something unreadable ({error})",
                "the mapping that Preprocessing.to_json writes",
            ) from error


def _triple(shape: Sequence[Any]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise InputError(
            "preprocessing.image_shape", str(shape), "three numbers: channels, height, width"
        )
    return int(shape[0]), int(shape[1]), int(shape[2])
