"""Tensors as they lie in memory: where they begin decides how sums are rounded."""

from __future__ import annotations

import torch
from torch import Tensor

# Torch begins its own tensors at multiples of this many bytes. Those of a file lie where the file
# has them, and vector instructions then group the first terms of a sum otherwise: the same update
# in another format would give records that differ in their last digits.
ALIGNMENT = 64
# Larger tensors of narrower types are left where they are: they are widened in parts before
# anything is summed, and a copy would take as much memory again.
_LARGEST = 2**28


def aligned(tensor: Tensor) -> Tensor:
    """The tensor, or a copy of it that begins where torch's own do.

    Example:
        >>> values = torch.arange(9.0)
        >>> aligned(values) is values, aligned(values[1:]).data_ptr() % ALIGNMENT
        (True, 0)
    """
    if tensor.data_ptr() % ALIGNMENT == 0:
        return tensor
    if tensor.dtype != torch.float64 and tensor.nbytes > _LARGEST:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)
