"""Flower's arrays, in every form that it hands them out, as tensors by name."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from flwr.app import ArrayRecord
from flwr.common import FitIns, FitRes, Parameters, bytes_to_ndarray
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.hostile import reading
from gradaudit.npzfile import check_array

Arrays = ArrayRecord | Parameters | FitIns | FitRes | Sequence[np.ndarray]

SERIALISED = "an array serialised by NumPy"


def tensors_of(where: str, arrays: Arrays) -> dict[str, Tensor]:
    """Tensors by name; by position (``"0"``, ``"1"``, ...) where Flower keeps no names.

    Nothing in the arrays is executed: NumPy's loader refuses pickles.

    Args:
        where: Whose arrays, for messages.
        arrays: An `ArrayRecord`; the older ``Parameters``, ``FitIns`` or ``FitRes``; or a list of
            ndarrays, as ``NumPyClient.fit`` returns.

    Raises:
        InputError: There are none, or one is damaged or no array of numbers.

    Example:
        >>> tensors_of("sent", [np.zeros(2), np.ones((1, 3))])["1"]
        tensor([[1., 1., 1.]], dtype=torch.float64)
    """
    loaders = _loaders(where, arrays)
    if not loaders:
        raise InputError(where, "no arrays", "a model's arrays")
    tensors = {}
    for name, load in loaders.items():
        with reading(f"{where}, array {name!r}", SERIALISED):
            tensors[name] = torch.from_numpy(load())
    return tensors


def _loaders(where: str, arrays: Arrays) -> dict[str, Callable[[], np.ndarray]]:
    if isinstance(arrays, ArrayRecord):
        return {
            name: partial(_checked, f"{where}, array {name!r}", array.data, array.numpy)
            for name, array in arrays.items()
        }
    if isinstance(arrays, FitIns | FitRes):
        arrays = arrays.parameters
    if isinstance(arrays, Parameters):
        return {
            str(i): partial(_checked, f"{where}, array {i}", data, partial(bytes_to_ndarray, data))
            for i, data in enumerate(arrays.tensors)
        }
    return {str(i): partial(np.array, array) for i, array in enumerate(arrays)}


def _checked(where: str, data: bytes, load: Callable[[], np.ndarray]) -> np.ndarray:
    """Load an array that holds what it declares: NumPy takes the memory first."""
    check_array(where, io.BytesIO(data), len(data))
    return load()
