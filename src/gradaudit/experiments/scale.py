"""How large an experiment is, and the data that it is run on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradaudit.errors import InputError

SCALES = ("quick", "standard", "full")
DATA_FOLDER = "GRADAUDIT_DATA"
# A data set of the paper, as it may lie in the data folder, and what stands in for it elsewhere.
FILES = {"MNIST": "mnist_*.npz", "CIFAR-10": "cifar10_*.npz", "Tiny-ImageNet": "tiny*imagenet*.npz"}
STAND_INS = {
    "MNIST": "digits",
    "CIFAR-10": "patches?size=32",
    "Tiny-ImageNet": "patches?size=64",
}


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is run.

    Attributes:
        name: ``"quick"`` (minutes), ``"standard"`` or ``"full"``, the paper's own size.
        seeds: Batches of each kind; None for the scale's own number.
        data: A source in place of the paper's data sets.
        seed: Of the first batch.

    Raises:
        InputError: There is no such scale.

    Example:
        >>> Scale("quick").pick(2, 10, 100)
        2
    """

    name: str = "quick"
    seeds: int | None = None
    data: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.name not in SCALES:
            raise InputError("scale", repr(self.name), "one of " + ", ".join(SCALES))
        if self.seeds is not None and self.seeds < 1:
            raise InputError("seeds", repr(self.seeds), "1 or more")

    def pick(self, quick: Any, standard: Any, full: Any) -> Any:
        """The value that belongs to the scale."""
        return {"quick": quick, "standard": standard, "full": full}[self.name]

    def batches(self, quick: int, standard: int, full: int) -> range:
        """The seeds of the batches."""
        return range(self.seed, self.seed + (self.seeds or self.pick(quick, standard, full)))

    def source(self, dataset: str) -> str:
        """The source to use for a data set of the paper: given, in the data folder, or a stand-in.

        Args:
            dataset: A key of `FILES`.
        """
        if self.data is not None:
            return self.data
        folder = os.environ.get(DATA_FOLDER)
        found = sorted(Path(folder).glob(FILES[dataset])) if folder else []
        return str(found[0]) if found else STAND_INS[dataset]


def shown(source: str) -> str:
    """A source as a page names it: a file without its folder.

    Example:
        >>> shown("/somewhere/mnist_3000.npz"), shown("patches?size=64")
        ('mnist_3000.npz', 'patches?size=64')
    """
    return Path(source).name if ".npz" in source else source
