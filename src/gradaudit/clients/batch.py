"""The records a client is given: tensors, checked and placed beside the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing


def place_batch(
    inputs: Float[Tensor, "b ..."],
    labels: Shaped[Tensor, "b ..."] | Sequence[int],
    preprocessing: Preprocessing | None,
    like: Tensor,
) -> tuple[Float[Tensor, "b ..."], Shaped[Tensor, "b ..."]]:
    """Check a client's records and labels, and move them to the model.

    Args:
        inputs: Network inputs, one record a row.
        labels: One label a record.
        preprocessing: How records became inputs, or None.
        like: A parameter of the model: its device, and the inputs' type.

    Raises:
        InputError: They are no batch, or not of that preprocessing.
    """
    records = _tensor("inputs", inputs)
    _check(records, preprocessing)
    placed = _tensor("labels", labels).to(like.device)
    return records.detach().to(like.device, like.dtype), placed


def _tensor(argument: str, value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise InputError(argument, type(value).__name__, "a tensor") from error


def _check(inputs: Tensor, preprocessing: Preprocessing | None) -> None:
    if inputs.ndim < 2 or 0 in inputs.shape:
        raise InputError("inputs", f"shape {tuple(inputs.shape)}", "one record a row")
    if not inputs.is_floating_point():
        raise InputError("inputs", str(inputs.dtype), "floating-point numbers")
    if not bool(torch.isfinite(inputs).all()):
        raise InputError("inputs", "values that are nan or infinite", "finite numbers")
    features = None if preprocessing is None else preprocessing.features
    if features is not None and features != inputs[0].numel():
        raise InputError(
            "preprocessing",
            f"{features} features",
            f"{inputs[0].numel()}, as the inputs have",
            "give the preprocessing of these inputs",
        )
