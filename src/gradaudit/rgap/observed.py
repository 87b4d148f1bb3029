"""What an update says about the gradient of one record, and how exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.noise import effective_dtype
from gradaudit.update import Update

# Standard deviation of an entry of a gradient that was computed in some type, in roundings of that
# type and of the entries of its row: sums over positions and layers add a few.
GRADIENT_ROUNDINGS = 4.0
# The same of a stored weight: it is rounded once, uniformly within half a unit.
WEIGHT_ROUNDINGS = 0.3


@dataclass(frozen=True, eq=False)
class Observed:
    """Gradients of several records, one a row.

    Attributes:
        gradients: By parameter, (r, ...), in float64.
        noise: By parameter, standard deviation of its entries for each of its rows, (r, rows).
        scale_known: Whether each is the gradient of a loss, and no multiple of it.
    """

    gradients: dict[str, Float[Tensor, "r ..."]]
    noise: dict[str, Float[Tensor, "r rows"]]
    scale_known: bool


def observe(updates: Sequence[Update], tensors: Sequence[Mapping[str, Tensor]]) -> Observed:
    """Read gradients off updates of one model.

    Args:
        updates: Gradients, or differences of weights; all of the same parameters.
        tensors: Of each, what was observed by the model's own names of parameters.

    Example:
        >>> weights = {"w": torch.ones(2, 3)}
        >>> update = Update(weights, gradient={"w": torch.full((2, 3), 0.3)})
        >>> observe([update], [update.observed]).gradients["w"].dtype
        torch.float64
    """
    factors = [_factor(update) for update in updates]
    gradients, noise = {}, {}
    for name in tensors[0]:
        rows = [t[name] for t in tensors]
        gradients[name] = torch.stack(
            [t.double() * factor for t, factor in zip(rows, factors, strict=True)]
        )
        noise[name] = torch.stack(
            [
                _noise(t, _weight_of(update, name), update.observed_kind) * abs(factor)
                for t, update, factor in zip(rows, updates, factors, strict=True)
            ]
        )
    known = all(u.observed_kind == "gradient" or u.step.learning_rate for u in updates)
    return Observed(gradients, noise, bool(known))


def _factor(update: Update) -> float:
    """What makes a gradient of the observed change."""
    if update.observed_kind == "gradient":
        return 1.0
    return -1.0 / (update.step.learning_rate or 1.0)


def _weight_of(update: Update, name: str) -> Tensor:
    """The weight whose change it is; wrappers may have prefixed the model's own names."""
    return update.weights.get(name, next(w for n, w in update.weights.items() if name.endswith(n)))


def _noise(change: Tensor, weight: Tensor, kind: str) -> Float[Tensor, " rows"]:
    """Standard deviation of the entries of each row of a change."""
    matrix = change.reshape(len(change), -1)
    own = torch.finfo(effective_dtype(matrix)).eps * GRADIENT_ROUNDINGS
    size = matrix.double().square().mean(1).sqrt()
    # A row without gradient was rounded away below the least number that the type can hold.
    noise = (own * size).clamp(min=torch.finfo(change.dtype).tiny)
    if kind == "delta":
        stored = weight.reshape(len(change), -1).to(matrix.device)
        rounded = torch.finfo(weight.dtype).eps * WEIGHT_ROUNDINGS
        noise = torch.hypot(noise, rounded * stored.double().square().mean(1).sqrt())
    return noise
