"""The protocol of a source of records, and the source that draws from a finite set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.randomness import make_generator

LABELS = ("random", "distinct")


@dataclass(frozen=True, eq=False)
class Batch:
    """Records ready for a network.

    Attributes:
        inputs: One record a row; images are (channels, height, width).
        labels: Classes, int64.
        preprocessing: How the records became inputs.
    """

    inputs: Float[Tensor, "b ..."]
    labels: Int[Tensor, " b"]
    preprocessing: Preprocessing


@runtime_checkable
class Source(Protocol):
    """Something that batches can be drawn from."""

    @property
    def name(self) -> str:
        """What it is, for a person."""

    @property
    def preprocessing(self) -> Preprocessing:
        """How its records become inputs."""

    @property
    def classes(self) -> int:
        """Number of classes; labels are 0 to classes - 1."""

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
        """Draw different records.

        Args:
            batch_size: How many.
            generator: Source of all randomness.
            seed: Starts a generator when none is given.
            label: Draw records of this class only.
            labels: ``"random"``: whatever comes; ``"distinct"``: no class twice.
            dtype: Of the inputs.

        Raises:
            InputError: The source has no such batch.
        """


class RecordSet:
    """A finite set of records, drawn without replacement.

    Args:
        name: What it is, for a person.
        labels: The class of every record.
        encode: Maps indices of records to network inputs, float64.
        preprocessing: How the records become inputs.
        classes: Number of classes.

    Example:
        >>> records = np.eye(3)
        >>> source = RecordSet("unit vectors", [0, 1, 1], records.__getitem__, Preprocessing(), 2)
        >>> source.batch(2, label=1).inputs.sum(dim=0)
        tensor([0., 1., 1.], dtype=torch.float64)
    """

    def __init__(
        self,
        name: str,
        labels: Sequence[int] | Integer[np.ndarray, " n"],
        encode: Callable[[Int[np.ndarray, " b"]], Float[np.ndarray, "b ..."]],
        preprocessing: Preprocessing,
        classes: int,
    ) -> None:
        self.name = name
        self.preprocessing = preprocessing
        self.classes = classes
        self._labels = torch.as_tensor(np.asarray(labels, dtype=np.int64))
        self._encode = encode

    def __len__(self) -> int:
        return len(self._labels)

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
        """Draw different records; see `Source.batch`."""
        check_request(batch_size, label, labels, self.classes)
        order = torch.randperm(len(self), generator=make_generator(generator, seed))
        if label is not None:
            order = order[self._labels[order] == label]
            what = f"{self.name} records of class {label}"
        elif labels == "distinct":
            _, first = np.unique(self._labels[order].numpy(), return_index=True)
            # In the order drawn, so that the first classes are not always the same.
            order = order[np.sort(first)]
            what = f"classes with a record in {self.name}"
        else:
            what = f"{self.name} records"
        if len(order) < batch_size:
            raise InputError("batch_size", str(batch_size), f"at most the {len(order)} {what}")
        chosen = order[:batch_size]
        inputs = torch.as_tensor(self._encode(chosen.numpy()))
        return Batch(inputs.to(dtype), self._labels[chosen], self.preprocessing)


def check_request(batch_size: int, label: int | None, labels: str, classes: int) -> None:
    """Check what `Source.batch` was asked for.

    Raises:
        InputError: It contradicts itself, or names a class that is not there.
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InputError("batch_size", repr(batch_size), "a whole number of 1 or more")
    if labels not in LABELS:
        raise InputError("labels", repr(labels), "one of " + ", ".join(LABELS))
    if label is not None and labels == "distinct":
        raise InputError("labels", "'distinct' with one label", "one of the two")
    if label is not None and not 0 <= label < classes:
        raise InputError("label", repr(label), f"0 to {classes - 1}")
