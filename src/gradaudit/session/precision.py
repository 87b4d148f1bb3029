"""Full float32 for a search, whatever the process allows its training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def full_float32() -> Iterator[None]:
    """Multiply float32 matrices in float32 while the context is open, then as before.

    ``torch.set_float32_matmul_precision("high")``, which training loops set for speed, rounds
    factors to TF32's ten bits (or bfloat16's seven): enough for a training step, but the zeros that
    searches look for would drown in it. Everything that decides is float64 and not concerned.

    Example:
        >>> torch.set_float32_matmul_precision("high")
        >>> with full_float32():
        ...     print(torch.get_float32_matmul_precision())
        highest
        >>> torch.get_float32_matmul_precision()
        'high'
        >>> torch.set_float32_matmul_precision("highest")
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
