"""What an update says about the gradient of one record, and how exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.noise import effective_dtype
from gradaudit.models.loaded import LoadedModel
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


def observe(
    updates: Sequence[Update], loaded: Sequence[LoadedModel], *, rescaled: bool = False
) -> Observed:
    """Read gradients off updates of one model.

    Args:
        updates: Gradients, or differences of weights; all of the same parameters.
        loaded: The model with the weights of each.
        rescaled: Whether each may have been multiplied by an unknown positive factor, as clipping
            does.

    Example:
        >>> from gradaudit.models.loaded import load_model
        >>> weights = {"weight": torch.ones(2, 3)}
        >>> update = Update(weights, gradient={"weight": torch.full((2, 3), 0.3)})
        >>> loaded = load_model(torch.nn.Linear(3, 2, bias=False), update)
        >>> observe([update], [loaded]).gradients["weight"].dtype
        torch.float64
    """
    factors = [_factor(update) for update in updates]
    gradients, noise = {}, {}
    for name in loaded[0].observed:
        rows = [each.observed[name] for each in loaded]
        gradients[name] = torch.stack(
            [t.double() * factor for t, factor in zip(rows, factors, strict=True)]
        )
        noise[name] = torch.stack(
            [
                _noise(t, each.tensors[name], update) * abs(factor)
                for t, each, update, factor in zip(rows, loaded, updates, factors, strict=True)
            ]
        )
    known = not rescaled and all(u.gradient_scale is not None for u in updates)
    return Observed(gradients, noise, known)


def perturbed(seen: Observed, generator: torch.Generator) -> Observed:
    """The same gradients with fresh noise, as large as their own.

    Args:
        seen: What was observed.
        generator: Of the noise.
    """
    gradients = {}
    for name, rows in seen.gradients.items():
        drawn = torch.randn(
            rows.shape, generator=generator, dtype=rows.dtype, device=generator.device
        ).to(rows.device)
        size = seen.noise[name].reshape(*rows.shape[:2], *[1] * (rows.ndim - 2))
        gradients[name] = rows + drawn * size
    return replace(seen, gradients=gradients)


def _factor(update: Update) -> float:
    """What makes a gradient of the observed change."""
    scale = update.gradient_scale
    # A difference of weights has at least the sign of a step downhill.
    return 1.0 / scale if scale is not None else -1.0


def _noise(change: Tensor, weight: Tensor, update: Update) -> Float[Tensor, " rows"]:
    """Standard deviation of the entries of each row of a change."""
    matrix = change.reshape(len(change), -1)
    own = torch.finfo(effective_dtype(matrix)).eps * GRADIENT_ROUNDINGS
    # A row without gradient was rounded away below the least number that the type can hold.
    tiny = torch.finfo(change.dtype).tiny
    noise = (own * matrix.double().square().mean(1).sqrt()).clamp(min=tiny)
    if update.observed_kind == "delta":
        stored = max(torch.finfo(t.dtype).eps for t in update.weights.values())
        size = weight.reshape(len(change), -1).square().mean(1).sqrt()
        noise = torch.hypot(noise, stored * WEIGHT_ROUNDINGS * size)
    return noise
