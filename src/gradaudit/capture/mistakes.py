"""The mistakes that cost users a day: a gradient that is none, weights twice, no change at all."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gradaudit.errors import InputError
from gradaudit.update import is_buffer

# A gradient is nearly orthogonal to the weights, so that the norm of their difference is about
# that of the weights or more; a step changes weights by percents.
LOOKS_LIKE_WEIGHTS = 0.25
# Below this cosine, "weights after the step" have nothing left of the weights before.
UNRELATED_COSINE = 0.5
# Entries whose difference is held at once.
PART_ENTRIES = 1 << 22


def check_gradient(
    what: str, observed: Mapping[str, Tensor], weights: Mapping[str, Tensor]
) -> None:
    """Refuse a gradient with BatchNorm buffers: it is a difference, or weights.

    Raises:
        InputError: It has some.
    """
    buffers = [name for name in observed if is_buffer(name)]
    if buffers:
        raise InputError(
            what,
            f"the BatchNorm buffer {buffers[0]!r} among gradients",
            "gradients of parameters only",
            "pass contains='weights_after' or contains='delta' if that is what the file holds",
        )
    check_not_weights(what, observed, weights)


def check_not_weights(
    what: str, observed: Mapping[str, Tensor], weights: Mapping[str, Tensor]
) -> None:
    """Refuse a change that nearly equals the weights: it is the weights after the step.

    Args:
        what: The argument or file, for the message.
        observed: The alleged gradient or difference.
        weights: The weights before.

    Raises:
        InputError: ``|observed - weights| < 0.25 |weights|`` in the Euclidean norm.
    """
    weight, _, difference = _norms(observed, weights)
    if weight > 0 and difference < LOOKS_LIKE_WEIGHTS * weight:
        raise InputError(
            what,
            f"tensors within {difference / weight:.2g} of the weights (relative norm)",
            "a change of the weights, not the weights after it",
            "pass contains='weights_after'",
        )


def check_after(what: str, after: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Refuse alleged weights-after that have nothing in common with the weights before.

    Args:
        what: The argument or file, for the message.
        after: The alleged weights after the step.
        weights: The weights before.

    Raises:
        InputError: The cosine of the two is below 0.5, the weights before not being zero.
    """
    weight, norm, difference = _norms(after, weights)
    if weight == 0 or norm == 0:
        return
    cosine = (weight**2 + norm**2 - difference**2) / (2 * weight * norm)
    if cosine < UNRELATED_COSINE:
        raise InputError(
            what,
            f"tensors unlike the weights (cosine {cosine:.2g})",
            "the weights after the step, since a learning rate was given",
            "pass contains='gradient' or contains='delta'; if they are weights, 'weights_after'",
        )


def check_changed(what: str, delta: Mapping[str, Tensor]) -> None:
    """Refuse a difference that is zero throughout.

    Raises:
        InputError: It is.
    """
    if not any(bool(tensor.count_nonzero()) for tensor in delta.values()):
        raise InputError(
            what,
            "no change of any weight",
            "weights that a step has changed",
            "give the weights before as weights and those after as path; a client that did not "
            "train reveals nothing",
        )


def _norms(
    observed: Mapping[str, Tensor], weights: Mapping[str, Tensor]
) -> tuple[float, float, float]:
    """Norms of the weights, of the observed, and of their difference, over common parameters."""
    squares = [0.0, 0.0, 0.0]
    for name, tensor in observed.items():
        weight = weights.get(name)
        if weight is None or weight.shape != tensor.shape or is_buffer(name):
            continue
        if not (weight.dtype.is_floating_point and tensor.dtype.is_floating_point):
            continue
        wide = torch.promote_types(torch.promote_types(weight.dtype, tensor.dtype), torch.float32)
        # In parts: the difference of two large layers is not held as a whole.
        flat = (torch.split(t.reshape(-1), PART_ENTRIES) for t in (weight, tensor))
        for before, after in zip(*flat, strict=True):
            for i, term in enumerate((before, after, after.to(wide) - before.to(wide))):
                squares[i] += float(torch.linalg.vector_norm(term, dtype=torch.float64)) ** 2
    return squares[0] ** 0.5, squares[1] ** 0.5, squares[2] ** 0.5
