"""The variables of a search for a batch, what they stand for, and what is minimised over them."""

from __future__ import annotations

import torch
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.gradient_matching.labels import Labels, infer_labels
from gradaudit.gradient_matching.methods import DISTANCES, Method
from gradaudit.gradient_matching.objective import total_variation
from gradaudit.gradient_matching.optimisers import Minimum, Variables, lbfgs, signed_adam
from gradaudit.gradient_matching.target import Target

# Relative residual at which L-BFGS, whose convergence is linear, leaves the rest to refinement.
NEAR = 1e-6


class Search:
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
