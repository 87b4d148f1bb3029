"""What a simulated client really used: for judging a reconstruction, never for making one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.tensorfile import read_tensors, write_tensors

FORMAT = "gradaudit.truth"


@dataclass(frozen=True, eq=False)
class Truth:
    """The records and labels behind a simulated update.

    No attack takes one of these; `gradaudit.metrics.compare` and reports do.

    Attributes:
        inputs: Network inputs, one record a row, of any shape after the first axis.
        labels: One label a record.
        preprocessing: How the records became inputs, if known.
    """

    inputs: Float[Tensor, "b ..."]
    labels: Shaped[Tensor, "b ..."]
    preprocessing: Preprocessing | None = None

    @property
    def batch_size(self) -> int:
        """Number of records."""
        return len(self.inputs)

    def save(self, path: str | Path) -> None:
        """Write to a safetensors file: ``inputs``, ``labels``, the preprocessing as metadata."""
        metadata = {"format": FORMAT, "version": "1"}
        if self.preprocessing is not None:
            metadata["preprocessing"] = self.preprocessing.to_text()
        write_tensors(path, {"inputs": self.inputs, "labels": self.labels}, metadata)

    @classmethod
    def load(cls, path: str | Path) -> Truth:
        """Read what `save` wrote.

        Raises:
            InputError: The file is not such a file.
        """
        tensors, metadata = read_tensors(path)
        if metadata.get("format") != FORMAT or not {"inputs", "labels"} <= tensors.keys():
            raise InputError(
                str(path), "a file without ground truth", "a truth file as `simulate` writes it"
            )
        inputs, labels = tensors["inputs"], tensors["labels"]
        if inputs.ndim < 2 or len(labels) != len(inputs) or not torch.is_floating_point(inputs):
            raise InputError(
                str(path),
                f"inputs {tuple(inputs.shape)} and labels {tuple(labels.shape)}",
                "one floating-point row and one label a record",
            )
        if not inputs.numel():
            raise InputError(str(path), "no record", "at least one")
        if not bool(torch.isfinite(inputs).all()):
            raise InputError(str(path), "inputs that are nan or infinite", "finite numbers")
        text = metadata.get("preprocessing")
        preprocessing = Preprocessing.from_json(text) if text else None
        features = None if preprocessing is None else preprocessing.features
        if features is not None and features != inputs[0].numel():
            raise InputError(
                str(path),
                f"a preprocessing of {features:,} values a record",
                f"{inputs[0].numel():,}, as its inputs have",
            )
        return cls(inputs, labels, preprocessing)
