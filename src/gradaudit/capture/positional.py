"""Unnamed tensors (Flower's lists, npz ``arr_0``): named after the weights where certain."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.update import is_buffer

_POSITION = re.compile(r"(?:arr_)?(\d{1,9})")


def is_positional(tensors: Mapping[str, Tensor]) -> bool:
    """Whether the names are only positions: ``"0", "1", ...`` or ``"arr_0", "arr_1", ...``."""
    positions = [_POSITION.fullmatch(name) for name in tensors]
    return {int(p[1]) if p else -1 for p in positions} == set(range(len(positions)))


def name_by_position(
    where: str,
    tensors: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    *,
    weights_keep_order: bool,
) -> dict[str, Tensor]:
    """Give unnamed tensors the weights' names.

    The shapes must agree with all weights, or with all but BatchNorm's buffers, one by one. Where
    the weights' order is lost (safetensors sorts), they must all differ, so that only one
    assignment exists.

    Args:
        where: The file of the unnamed tensors, for messages.
        tensors: Tensors named by position.
        weights: The named weights.
        weights_keep_order: Whether the weights are in the model's order.

    Returns:
        The same tensors under the weights' names.

    Raises:
        InputError: The weights are unnamed too, or the assignment is not certain.

    Example:
        >>> import torch
        >>> weights = {"fc.weight": torch.ones(3, 2), "fc.bias": torch.ones(3)}
        >>> unnamed = {"arr_0": torch.ones(3, 2), "arr_1": torch.ones(3)}
        >>> sorted(name_by_position("g.npz", unnamed, weights, weights_keep_order=True))
        ['fc.bias', 'fc.weight']
    """
    if is_positional(weights):
        raise InputError(
            where,
            f"{len(tensors)} tensors without names, and weights without names",
            "parameter names in at least the weights",
            "save model.state_dict() as the weights",
        )
    ordered = [tensors[name] for name in sorted(tensors, key=_position)]
    without_buffers = [name for name in weights if not is_buffer(name)]
    for names in (list(weights), without_buffers):
        shapes = [weights[name].shape for name in names]
        if weights_keep_order and shapes == [t.shape for t in ordered]:
            return dict(zip(names, ordered, strict=True))
        by_shape = {tuple(t.shape): t for t in ordered}
        unique = len(by_shape) == len(ordered) == len(names) == len(set(shapes))
        if unique and set(by_shape) == {tuple(shape) for shape in shapes}:
            return {name: by_shape[tuple(weights[name].shape)] for name in names}
    remedy = "save them under their parameter names"
    if not weights_keep_order:
        remedy += ", or the weights with torch.save, which keeps their order"
    raise InputError(
        where,
        f"{len(tensors)} tensors without names whose shapes do not settle which is which",
        f"the {len(weights)} weights' shapes in order",
        remedy,
    )


def _position(name: str) -> int:
    match = _POSITION.fullmatch(name)
    assert match is not None  # noqa: S101 - is_positional matched it
    return int(match[1])
