"""Gradient matching: search for a batch whose gradient is the observed one."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.gradient_matching.labels import Labels, infer_labels
from gradaudit.gradient_matching.methods import DISTANCES, Method
from gradaudit.gradient_matching.objective import total_variation
from gradaudit.gradient_matching.optimisers import Minimum, Variables, lbfgs, signed_adam
from gradaudit.gradient_matching.refine import refine
from gradaudit.gradient_matching.target import Target, UnsuitedError

# Relative residual at which L-BFGS, whose convergence is linear, leaves the rest to refinement.
NEAR = 1e-6
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
    _check(target, method, batch_size)
    started = time.perf_counter()
    search = _Search(target.to(method.dtype), method, batch_size, labels, generator)
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


def _check(target: Target, method: Method, batch_size: int) -> None:
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


class _Search:
    """The variables of one search and what they stand for."""

    def __init__(
        self,
        target: Target,
        method: Method,
        batch_size: int,
        labels: tuple[int, ...] | None,
        generator: torch.Generator,
    ) -> None:
        self._target, self._method = target, method
        self._distance = DISTANCES[method.distance]
        self._image = len(target.input_shape) == 3
        draw = (method.restarts, batch_size)
        records = torch.randn(
            (*draw, *target.input_shape),
            generator=generator,
            dtype=target.dtype,
            device=target.device,
        )
        self._labels: Labels | None = None
        self._start: Variables = (records,)
        if labels is not None:
            known = torch.tensor(labels, device=target.device)
            self._labels = Labels(known, True, "given")
        elif not method.soft_labels:
            self._labels = infer_labels(target, batch_size, generator=generator)
        else:
            soft = torch.randn(
                (*draw, target.outputs),
                generator=generator,
                dtype=target.dtype,
                device=target.device,
            )
            self._start = (records, soft)

    @property
    def labels_from(self) -> str:
        """Where the labels are from, in words."""
        return "searched for with the records" if self._labels is None else self._labels.how

    def run(self, control: Control) -> Minimum:
        """The method's optimiser on the objective."""
        method = self._method
        if method.optimiser == "signed_adam":
            return signed_adam(
                self._objective,
                self._start,
                iterations=method.iterations,
                learning_rate=method.learning_rate,
                project=self._project,
                control=control,
                phase=method.name,
            )
        size = sum(float(g.square().sum()) for g in self._target.gradient.values())
        return lbfgs(
            self._objective,
            self._start,
            iterations=method.iterations,
            learning_rate=method.learning_rate,
            enough=NEAR**2 * (size if method.needs_scale else 0.5),
            control=control,
            phase=method.name,
        )

    def read(self, minimum: Minimum, place: int) -> tuple[Tensor, Tensor | None, Tensor]:
        """The records of one start, their classes if they have any, and what the loss takes."""
        records = minimum.variables[0][place]
        if self._labels is not None:
            return records, self._labels.classes, self._labels.classes
        soft = minimum.variables[1][place]
        if self._target.loss.name == "cross_entropy":
            classes = soft.argmax(1)
        elif self._target.loss.name == "binary_cross_entropy":
            classes = (soft[:, 0] > 0).long()
        else:
            return records, None, soft.to(torch.float64)
        return records, classes, classes

    def distances(self, minimum: Minimum) -> Tensor:
        """The distance of gradients alone, for every start that was reached."""
        with torch.no_grad():
            found = self._target.gradients(minimum.variables[0], self._of(minimum.variables))
            reached = minimum.values.isfinite()
            distances = self._distance(found, self._target.gradient)
        return torch.where(reached, distances, torch.inf)

    def _objective(self, variables: Variables) -> Tensor:
        found = self._target.gradients(variables[0], self._of(variables))
        value = self._distance(found, self._target.gradient)
        if self._method.total_variation and self._image:
            value = value + self._method.total_variation * total_variation(variables[0]).mean(1)
        return value

    def _of(self, variables: Variables) -> Tensor:
        if self._labels is None:
            return self._soften(variables[1])
        return self._labels.classes.expand(len(variables[0]), -1)

    def _soften(self, variables: Tensor) -> Tensor:
        name = self._target.loss.name
        if name == "cross_entropy":
            return variables.softmax(-1)
        return variables.sigmoid()[..., 0] if name == "binary_cross_entropy" else variables

    def _project(self, variables: Variables) -> None:
        if self._method.boxed and self._target.box is not None:
            low, high = self._target.box
            variables[0].clamp_(low, high)
