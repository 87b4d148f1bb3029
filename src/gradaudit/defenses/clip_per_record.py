"""Clipping the gradient of each record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.defenses.checks import check_number
from gradaudit.defenses.defense import RecordDefense

# Opacus adds it to the norm it divides by; kept, so that the same records give the same numbers.
STABILISER = 1e-6


@dataclass(frozen=True)
class ClipPerRecord(RecordDefense):
    """Shorten each record's gradient to a norm of at most C, over all parameters together.

    ::

        g_i  ->  g_i min(1, C / (|g_i| + 10^-6))

    The clipped gradient keeps its direction: a record's share of the batch shrinks, and the batch
    can be disaggregated as before.

    Attributes:
        norm: C, in the units of a single record's gradient; positive.

    Raises:
        InputError: The norm is not positive.

    Source:
        Abadi et al., Deep learning with differential privacy, 2016, algorithm 1; the small term as
        in Opacus' ``DPOptimizer.clip_and_accumulate``.

    Example:
        >>> gradients = {"a": torch.tensor([[3.0], [0.3]]), "b": torch.tensor([[4.0], [0.4]])}
        >>> clipped = ClipPerRecord(1.0).on_records(gradients)
        >>> torch.cat([clipped["a"], clipped["b"]], 1)
        tensor([[0.6000, 0.8000],
                [0.3000, 0.4000]])
    """

    norm: float

    def __post_init__(self) -> None:
        check_number("norm", self.norm, 0, math.inf, open_below=True)

    def on_records(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `RecordDefense.on_records`."""
        factors = (self.norm / (record_norms(gradients) + STABILISER)).clamp(max=1.0)
        return {
            name: rows * factors.to(rows.dtype).reshape(-1, *[1] * (rows.ndim - 1))
            for name, rows in gradients.items()
        }


def record_norms(gradients: Mapping[str, Tensor]) -> Float[Tensor, " b"]:
    """Euclidean norm of each record's gradient over all parameters.

    Args:
        gradients: By parameter, one record a row.

    Example:
        >>> record_norms({"a": torch.tensor([[3.0]]), "b": torch.tensor([[4.0]])})
        tensor([5.])
    """
    norms = [
        torch.linalg.vector_norm(rows.reshape(len(rows), -1), dim=1) for rows in gradients.values()
    ]
    return torch.linalg.vector_norm(torch.stack(norms, dim=1), dim=1)
