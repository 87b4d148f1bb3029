"""What a server sees of several clients under secure aggregation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from gradaudit.errors import InputError
from gradaudit.update import LocalTraining, Step, Update


def secure_aggregation(updates: Sequence[Update], weights: Sequence[float] | None = None) -> Update:
    """The sum of clients' updates, which is all that secure aggregation shows.

        u  =  sum_k w_k u_k

    The masks that hide each client's update cancel in the sum, so that none is computed here. Of
    mean gradients weighted by batch size, the sum is the mean gradient of all clients' records
    together: an attack faces one larger batch, and learns no client's name for a record.

    Args:
        updates: One or more, of the same weights and parameters, and made in the same way.
        weights: What each counts for; by default they are equal and sum to one. With clients of
            different sizes, FedAvg takes a client's part of all records.

    Returns:
        An update without source; its noise is known if that of all clients is.

    Raises:
        InputError: The updates are not of one model and one kind, or the weights not theirs.

    Source:
        Bonawitz et al., Practical secure aggregation for privacy-preserving machine learning,
        2017.

    Example:
        >>> start = {"w": torch.zeros(1)}
        >>> clients = [Update(start, {"w": torch.tensor([value])}) for value in (1.0, 3.0)]
        >>> secure_aggregation(clients).gradient["w"]
        tensor([2.])
    """
    if not updates:
        raise InputError("updates", "none", "one or more")
    first = updates[0]
    parts = [1.0 / len(updates)] * len(updates) if weights is None else list(weights)
    if len(parts) != len(updates) or not all(0 < part < math.inf for part in parts):
        raise InputError("weights", repr(parts), f"{len(updates)} positive numbers")
    for number, update in enumerate(updates):
        _check_alike(first, update, number)
    total = {
        name: sum(
            (part * update.observed[name] for part, update in zip(parts, updates, strict=True)),
            torch.zeros_like(change),
        )
        for name, change in first.observed.items()
    }
    noises = [update.noise for update in updates]
    known = [part * noise for part, noise in zip(parts, noises, strict=True) if noise is not None]
    return Update(
        first.weights,
        gradient=total if first.observed_kind == "gradient" else None,
        delta=total if first.observed_kind == "delta" else None,
        step=first.step if all(u.step == first.step for u in updates) else _settings(first.step),
        preprocessing=first.preprocessing,
        noise=math.hypot(*known) if len(known) == len(updates) else None,
    )


def _check_alike(first: Update, update: Update, number: int) -> None:
    """Refuse an update that cannot be added to the first one."""
    where = f"updates[{number}]"
    kinds = [(each.observed_kind, _settings(each.step)) for each in (update, first)]
    if kinds[0] != kinds[1]:
        raise InputError(where, "a {} by {}".format(*kinds[0]), "a {} by {}".format(*kinds[1]))
    if update.observed.keys() != first.observed.keys():
        raise InputError(where, "other parameters", "those of the first update")
    for name, weight in first.weights.items():
        other = update.weights.get(name)
        if other is None or not torch.equal(weight, other):
            raise InputError(
                where, f"another weight {name!r}", "updates of one round, from the same weights"
            )


def _settings(step: Step) -> Step:
    """How a step was made, but for the number of records, which is each client's own."""
    return replace(step, records=None) if isinstance(step, LocalTraining) else step
