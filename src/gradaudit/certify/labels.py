"""Labels, copies and the update's overall factor, record by record."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.certify.forward import Forward
from gradaudit.linear.tolerances import COPIES_TOLERANCE, LARGEST_COPIES

# Records of all classes whose losses are differentiated at once.
LARGEST_RUN = 4096
# Directions of a sketch: with fewer than two any gradients are parallel. It takes a product
# backwards for both, two forwards, and at least one more backwards for the class that is left.
PROBES, SKETCH_PRODUCTS = 2, 4
# A class is excluded only by so many tolerances, and by more than the sketch's own rounding.
SKETCH_FACTOR, SKETCH_ROUNDING = 10.0, 1e-8


@dataclass(frozen=True, eq=False)
class Fits:
    r"""For every class c and record x, the weight w that minimises :math:`\|g - w\,g(x, c)\|`.

    Attributes:
        weights: What the class's gradient is multiplied by in the update: copies over batch size,
            times the update's factor (1 for a mean gradient, minus the learning rate for a
            difference of weights). Of either sign.
        residuals: Relative difference that remains. Of a class that is excluded, a lower bound; its
            weight is then zero.
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
        namesakes: The same for the best other class whose weight has the right sign. Outputs that
            no active neuron reaches differ in nothing that the layer sees.
    """

    labels: Int[Tensor, " b"]
    weights: Float[Tensor, " b"]
    residuals: Float[Tensor, " b"]
    rivals: Float[Tensor, " b"]
    namesakes: Float[Tensor, " b"]


def fit_classes(
    forward: Forward,
    gradients: Float[Tensor, "m b"],
    *,
    sign: float,
    tolerances: Float[Tensor, " b"],
) -> Fits:
    """Compare every record's observed dL/dZ with that of every class.

    A class whose gradient differs from the observed one even in the few directions of a sketch
    differs by as much at least. What a class leaves is worked out where the sketch does not say
    enough, and for all classes of a record that none of them explains.

    Args:
        forward: The network's pass for these records.
        gradients: Observed dL/dZ, one record a column.
        sign: 1 for a gradient, -1 for a difference of weights.
        tolerances: Residuals up to which a class explains a record.
    """
    observed = gradients.T
    residuals = _lower_bounds(forward, observed)
    weights = torch.zeros_like(residuals)
    done = torch.zeros_like(residuals, dtype=torch.bool)

    def work_out(pending: Bool[Tensor, "c b"]) -> None:
        while bool(pending.any()):
            # The next class of every record: one product backwards for all of them.
            labels = pending.to(torch.uint8).argmax(0)
            weight, rest = _fit(observed, forward.activation_gradients(labels))
            weights.scatter_(0, labels[None], weight[None])
            residuals.scatter_(0, labels[None], (rest / observed.norm(dim=1))[None])
            done.scatter_(0, labels[None], True)
            pending = pending & ~done

    work_out(residuals <= (SKETCH_FACTOR * tolerances).clamp(min=SKETCH_ROUNDING))
    explained = done & (residuals <= tolerances) & (weights * sign > 0)
    work_out(~done & ~explained.any(0))
    return Fits(weights, residuals)


def _lower_bounds(forward: Forward, observed: Float[Tensor, "b m"]) -> Float[Tensor, "c b"]:
    """What each class leaves of the observed gradients along a few directions alone."""
    size, classes = len(observed), forward.classes
    nothing = observed.new_zeros(classes, size)
    if classes <= SKETCH_PRODUCTS:
        return nothing
    generator = torch.Generator().manual_seed(0)
    probes = torch.randn(observed.shape[1], PROBES, generator=generator, dtype=torch.float64)
    probes = torch.linalg.qr(probes.to(observed)).Q
    try:
        changes = forward.output_changes(probes.T)
    except RuntimeError:
        # Not everything can be differentiated twice (fused attention cannot): then every class is
        # worked out.
        return nothing
    parts = []
    for block in torch.split(
        torch.arange(classes, device=observed.device), max(1, LARGEST_RUN // size)
    ):
        slopes = forward.loss_slopes(block[:, None].expand(-1, size))
        own = (slopes[None] * changes[:, None]).flatten(3).sum(3).permute(1, 2, 0)
        parts.append(_fit(observed @ probes, own)[1])
    return torch.cat(parts) / observed.norm(dim=1)


def _fit(
    observed: Float[Tensor, "b d"], own: Float[Tensor, "*c b d"]
) -> tuple[Float[Tensor, "*c b"], Float[Tensor, "*c b"]]:
    """The weight of each gradient that leaves least of the observed one, and the norm it leaves."""
    square = own.square().sum(-1).clamp(min=torch.finfo(own.dtype).tiny)
    weight = (observed * own).sum(-1) / square
    return weight, (observed - weight[..., None] * own).norm(dim=-1)


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
    same_sign = residuals.scatter(0, labels[None], torch.inf)
    own = weights.gather(0, labels[None])[0]
    return Labelling(labels, own, best, others.amin(0), same_sign.amin(0))


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
