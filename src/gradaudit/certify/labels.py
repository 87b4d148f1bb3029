"""Labels, copies and the update's overall factor, record by record."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.certify.network import Network
from gradaudit.linear.tolerances import COPIES_TOLERANCE, LARGEST_COPIES


@dataclass(frozen=True, eq=False)
class Labelling:
    """The class whose activation gradient matches each record's, and how well.

    Attributes:
        labels: Best class a record.
        weights: What the class's gradient is multiplied by in the update: copies over batch size,
            times the update's factor (1 for a mean gradient, minus the learning rate for a
            difference of weights).
        residuals: Relative difference that remains.
    """

    labels: Int[Tensor, " b"]
    weights: Float[Tensor, " b"]
    residuals: Float[Tensor, " b"]


def match_labels(
    network: Network,
    records: Float[Tensor, "b n"],
    gradients: Float[Tensor, "m b"],
    *,
    sign: float,
) -> Labelling:
    r"""For every record, the class c and weight w that minimise :math:`\|g - w\,g(x, c)\|`.

    Args:
        network: Prepared for these records.
        records: One a row.
        gradients: Observed dL/dZ, one record a column.
        sign: Of the weights: 1 for a gradient, -1 for a difference of weights. With two classes it
            alone tells them apart, since their gradients are opposite.
    """
    observed = gradients.T
    norms = observed.norm(dim=1)
    best = Labelling(
        torch.zeros(len(records), dtype=torch.int64, device=records.device),
        torch.zeros_like(norms),
        torch.full_like(norms, torch.inf),
    )
    for label in range(network.classes(records)):
        own = network.activation_gradients(records, torch.full_like(best.labels, label))
        square = own.square().sum(1)
        weights = (observed * own).sum(1) / square.clamp(min=torch.finfo(square.dtype).tiny)
        weights = torch.where(weights * sign > 0, weights, torch.zeros_like(weights))
        residuals = (observed - weights[:, None] * own).norm(dim=1) / norms
        better = residuals < best.residuals
        best = Labelling(
            torch.where(better, label, best.labels),
            torch.where(better, weights, best.weights),
            torch.where(better, residuals, best.residuals),
        )
    return best


def count_copies(weights: Float[Tensor, " b"]) -> tuple[Int[Tensor, " b"], float] | None:
    """How often each record occurs, from the records' weights in the update.

    Args:
        weights: Of one sign, none of them zero.

    Returns:
        The smallest whole numbers in the weights' proportion, and the update's overall factor
        (weight a copy, times copies); None when there is no such proportion.

    Example:
        >>> copies, factor = count_copies(torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64))
        >>> copies.tolist(), factor
        ([1, 1, 2], 1.0)
    """
    if not bool((weights != 0).all()):
        return None
    ratios = weights / weights[weights.abs().argmin()]
    for multiple in range(1, LARGEST_COPIES + 1):
        scaled = ratios * multiple
        whole = scaled.round()
        if bool(((scaled - whole).abs() <= COPIES_TOLERANCE * scaled).all()):
            return whole.to(torch.int64), float(weights.sum())
    return None
