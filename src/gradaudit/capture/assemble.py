"""From weights and what was observed to a checked `Update`, the difference taken if need be."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gradaudit.capture.alignment import aligned
from gradaudit.capture.mistakes import check_changed, check_gradient, check_not_weights
from gradaudit.capture.roles import DELTA, GRADIENT, WEIGHTS_AFTER
from gradaudit.preprocessing import Preprocessing
from gradaudit.update import Step, Update, check_match, is_buffer


def assemble(
    weights: Mapping[str, Tensor],
    observed: Mapping[str, Tensor],
    kind: str,
    *,
    where: str,
    trusted: bool,
    step: Step,
    noise: float | None,
    preprocessing: Preprocessing | None,
    source: Mapping[str, str],
) -> Update:
    """Build the update and refuse the usual mistakes.

    Args:
        weights: The weights before, by name without wrappers' prefixes.
        observed: What was observed, named likewise.
        kind: ``"gradient"``, ``"delta"`` or ``"weights_after"``.
        where: The observed file, for messages.
        trusted: Whether the file is this package's own, whose content is kept as it is.
        step: How the update came about.
        noise: Standard deviation of Gaussian noise in each observed entry, or None.
        preprocessing: How records became network inputs, or None.
        source: File names and digests.

    Raises:
        InputError: The tensors are no update, or not of the kind that was said.
    """
    if kind == WEIGHTS_AFTER:
        observed = difference(weights, observed)
    elif kind == DELTA and not trusted:
        observed = {name: t for name, t in observed.items() if not is_buffer(name)} or observed
    weights = {name: aligned(tensor) for name, tensor in weights.items()}
    observed = {name: aligned(tensor) for name, tensor in observed.items()}
    update = Update(
        weights,
        gradient=observed if kind == GRADIENT else None,
        delta=None if kind == GRADIENT else observed,
        step=step,
        noise=noise,
        preprocessing=preprocessing,
        source=source,
        contains=kind,
    )
    if trusted:
        return update
    if kind == GRADIENT:
        check_gradient(where, update.observed, update.weights)
    else:
        check_changed(where, update.observed)
        # A difference that was taken here cannot be the weights after.
        if kind == DELTA:
            check_not_weights(where, update.observed, update.weights)
    return update


def difference(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights after minus weights before, in float32 or wider.

    BatchNorm's buffers and integer buffers are left out: a step does not differentiate them.

    Args:
        before: The weights before, by name.
        after: The weights after, by name; a part of them will do.

    Returns:
        The difference by name; float64 where either side is float64, else float32.

    Raises:
        InputError: A name or shape is not that of a weight.

    Example:
        >>> half = {"w": torch.tensor([1.0], dtype=torch.float16)}
        >>> difference(half, {"w": torch.tensor([1.5], dtype=torch.float16)})
        {'w': tensor([0.5000])}
    """
    parameters = {name: t for name, t in after.items() if not is_buffer(name)}
    check_match(before, parameters, WEIGHTS_AFTER)
    change = {}
    for name, tensor in parameters.items():
        weight = before[name]
        floating = (weight.dtype.is_floating_point, tensor.dtype.is_floating_point)
        if floating == (False, False):
            continue
        if floating != (True, True):
            # Left as it is, for Update to refuse with the name.
            change[name] = tensor
            continue
        wide = torch.promote_types(torch.promote_types(weight.dtype, tensor.dtype), torch.float32)
        change[name] = tensor.to(wide) - weight.to(wide)
    return change
