"""Labels, copies and the update's overall factor, record by record."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.certify.network import Network
from gradaudit.linear.tolerances import COPIES_TOLERANCE, LARGEST_COPIES

# Records of all classes that the network runs at once.
LARGEST_RUN = 4096


@dataclass(frozen=True, eq=False)
class Fits:
    r"""For every class c and record x, the weight w that minimises :math:`\|g - w\,g(x, c)\|`.

    Attributes:
        weights: What the class's gradient is multiplied by in the update: copies over batch size,
            times the update's factor (1 for a mean gradient, minus the learning rate for a
            difference of weights). Of either sign.
        residuals: Relative difference that remains.
    """

    weights: Float[Tensor, "c b"]
    residuals: Float[Tensor, "c b"]


@dataclass(frozen=True, eq=False)
class Labelling:
    """The class whose activation gradient matches each record's, and how well.

    Attributes:
        labels: Best class a record.
        weights: Of that class.
        residuals: Of that class; 1 if its weight has the wrong sign.
        rivals: The same for the best other class, with a weight of either sign. Two classes or one
            logit leave none: the gradients of both have one direction.
    """

    labels: Int[Tensor, " b"]
    weights: Float[Tensor, " b"]
    residuals: Float[Tensor, " b"]
    rivals: Float[Tensor, " b"]


def fit_classes(
    network: Network, records: Float[Tensor, "b n"], gradients: Float[Tensor, "m b"]
) -> Fits:
    """Compare every record's observed dL/dZ with that of every class.

    Args:
        network: Prepared for these records.
        records: One a row.
        gradients: Observed dL/dZ, one record a column.
    """
    observed = gradients.T
    size = len(records)
    step = max(1, LARGEST_RUN // size)
    count = network.classes(records)
    weights, residuals = [], []
    for first in range(0, count, step):
        classes = torch.arange(first, min(first + step, count), device=records.device)
        labels = classes.repeat_interleave(size)
        own = network.activation_gradients(records.repeat(len(classes), 1), labels)
        own = own.reshape(len(classes), size, -1)
        square = own.square().sum(2)
        weight = (observed * own).sum(2) / square.clamp(min=torch.finfo(square.dtype).tiny)
        weights.append(weight)
        residuals.append((observed - weight[..., None] * own).norm(dim=2))
    return Fits(torch.cat(weights), torch.cat(residuals) / observed.norm(dim=1))


def best_labels(fits: Fits, sign: float) -> Labelling:
    """The best class of each record among those whose weight has a sign.

    Args:
        fits: Of every class.
        sign: 1 for a gradient, -1 for a difference of weights. With two classes it alone tells
            them apart, since their gradients are opposite.
    """
    allowed = fits.weights * sign > 0
    residuals = torch.where(allowed, fits.residuals, torch.ones_like(fits.residuals))
    best, labels = residuals.min(0)
    weights = torch.where(allowed, fits.weights, torch.zeros_like(fits.weights))
    others = fits.residuals.clone()
    others.scatter_(0, labels[None], torch.inf)
    return Labelling(labels, weights.gather(0, labels[None])[0], best, others.amin(0))


def count_copies(
    weights: Float[Tensor, " b"],
    *,
    tolerance: float = COPIES_TOLERANCE,
    largest: int = LARGEST_COPIES,
) -> tuple[Int[Tensor, " b"], float] | None:
    """How often each record occurs, from the records' weights in the update.

    Args:
        weights: Of one sign, none of them zero.
        tolerance: Relative error of a weight.
        largest: Copies that the rarest record may have.

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
    for multiple in range(1, largest + 1):
        scaled = ratios * multiple
        whole = scaled.round()
        if bool(((scaled - whole).abs() <= tolerance * scaled).all()):
            return whole.to(torch.int64), float(weights.sum())
    return None
