"""Gradient matching: search for a batch whose gradient is the observed one."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.errors import InputError
from gradaudit.gradient_matching.methods import Method
from gradaudit.gradient_matching.refine import refine
from gradaudit.gradient_matching.search import Search
from gradaudit.gradient_matching.target import Target, UnsuitedError
from gradaudit.models.losses import LOSSES

# Relative residual from which refinement can be expected to converge.
REFINABLE = 1e-2
# Part of the time that the search may use; refinement and judgement need the rest.
SEARCH_SHARE = 0.8
# A gradient as close as this many of its own roundings is reproduced as well as it is known, and
# nothing is reproduced better than to this many roundings of the arithmetic.
ENOUGH_ROUNDINGS = 0.1
ARITHMETIC_ROUNDINGS = 10.0


@dataclass(frozen=True, eq=False)
class Match:
    """The best candidate; whether it is the batch, certification decides.

    Attributes:
        records: Network inputs.
        classes: Their labels; None where they are not classes.
        distance: The method's distance of gradients.
        distances: Of every restart.
        residual: Norm of the gradient's unexplained part, relative to the gradient's.
        labels_from: Where the labels are from, in words.
        stopped: Why the search ended early; empty if it did not.
        counters: What was counted.
        seconds: Time by phase.
    """

    records: Float[Tensor, "b ..."]
    classes: Int[Tensor, " b"] | None
    distance: float
    distances: tuple[float, ...]
    residual: float
    labels_from: str
    stopped: str
    counters: dict[str, float]
    seconds: dict[str, float]


def match_gradient(
    target: Target,
    method: Method,
    batch_size: int,
    *,
    labels: tuple[int, ...] | None = None,
    generator: torch.Generator,
    control: Control,
) -> Match:
    r"""Search for records x (and labels y) whose gradient is the observed one.

    .. math:: \min_x \; D(\nabla L(x, y), g^*) + \alpha \, TV(x)

    from random starts :math:`x \sim N(0, 1)`, by the method's distance and optimiser.

    Args:
        target: Gradient, network and loss.
        method: One of `METHODS`, or another.
        batch_size: Records to search for.
        labels: Their classes, if known.
        generator: Of the starts; on the target's device.
        control: Stops the search, which returns what it has.

    Raises:
        InputError: A label is no class of the network.
        UnsuitedError: The method does not take this batch or this update.

    Source:
        arXiv 1906.08935, 2001.02610 and 2003.14053, as the method says.

    Example:
        >>> from gradaudit.clients import FedSGD
        >>> from gradaudit.gradient_matching import DLG, Knowledge, make_target
        >>> from gradaudit.models import mlp
        >>> model = mlp(6, [8], 3, activation="sigmoid", init="normal", dtype=torch.float64)
        >>> inputs = torch.linspace(-1, 1, 6).double()[None]
        >>> update, _ = FedSGD(model).update(inputs, [2])
        >>> target = make_target(model, update, "cross_entropy", Knowledge())
        >>> generator = torch.Generator().manual_seed(0)
        >>> found = match_gradient(target, DLG, 1, generator=generator, control=Control())
        >>> bool((found.records - inputs).abs().max() < 1e-9), found.classes.tolist()
        (True, [2])
    """
    _check(target, method, batch_size, labels)
    started = time.perf_counter()
    search = Search(target.to(method.dtype), method, batch_size, labels, generator)
    minimum = search.run(control.share(SEARCH_SHARE))
    distances = search.distances(minimum)
    place = int(torch.where(distances.isnan(), torch.inf, distances).argmin())
    records, classes, as_labels = search.read(minimum, place)
    records = records.to(torch.float64)
    residual = float(target.residuals(records[None], as_labels[None]))
    searched = time.perf_counter()
    if classes is not None and residual <= REFINABLE:
        enough = max(
            ENOUGH_ROUNDINGS * target.observed_eps,
            ARITHMETIC_ROUNDINGS * torch.finfo(torch.float64).eps,
        )
        refined = refine(target, records, classes, enough=enough, control=control)
        records, residual = refined.records, refined.residual
    return Match(
        records=records,
        classes=classes,
        distance=float(distances[place]),
        distances=tuple(distances.tolist()),
        residual=residual,
        labels_from=search.labels_from,
        stopped=minimum.stopped,
        counters={"iterations": float(minimum.iterations), "restarts": float(method.restarts)},
        seconds={"match": searched - started, "refine": time.perf_counter() - searched},
    )


def _check(target: Target, method: Method, batch_size: int, labels: tuple[int, ...] | None) -> None:
    classes = max(2, target.outputs)
    if labels is not None and max(labels) >= classes:
        raise InputError(
            "labels", f"the class {max(labels)}", f"0 to {classes - 1}, as the network's outputs"
        )
    if labels is None and method.soft_labels and target.loss.name not in LOSSES:
        raise UnsuitedError(
            f"Labels of the loss {target.loss.name!r} cannot be searched for.", "Give the labels."
        )
    largest = method.largest_batch
    if largest is not None and batch_size > largest:
        raise UnsuitedError(
            f"The attack {method.name!r} takes a batch of {largest}; this update is of "
            f"{batch_size} records.",
            "Use the attack 'dlg' or 'inverting-gradients'.",
        )
    if method.needs_scale and not target.scale_known:
        raise UnsuitedError(
            f"The attack {method.name!r} needs the gradient itself; a difference of weights is "
            "the learning rate times that.",
            "Give the client's learning rate, or use the attack 'inverting-gradients', which needs "
            "no scale.",
        )
