"""An observed change and weights from different tools: the same parameters under other names."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gradaudit.update import outer_prefix

# A network ties its embedding to one or two layers; each name costs a comparison with all others.
MAX_TIED = 16


def reconcile_names(
    observed: Mapping[str, Tensor], weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Give what was observed the weights' names, where it is certain which is which.

    Two differences between tools are seen through. One of them saves the network alone, the other
    with the module around it, so that all names differ by one prefix. And safetensors files hold
    tied weights once, which a state dict holds under two names.

    Args:
        observed: The observed tensors by name.
        weights: The weights by name.

    Returns:
        The same tensors under the weights' names; as they are where no rule fits all of them.

    Example:
        >>> weights = {"net.fc.weight": torch.ones(2, 3)}
        >>> list(reconcile_names({"fc.weight": torch.ones(2, 3)}, weights))
        ['net.fc.weight']
    """
    if observed.keys() <= weights.keys():
        return dict(observed)
    if prefix := outer_prefix(observed, weights):
        return {prefix + name: tensor for name, tensor in observed.items()}
    if prefix := _inner_prefix(observed, weights):
        return {name.removeprefix(prefix): tensor for name, tensor in observed.items()}
    unknown = [name for name in observed if name not in weights]
    if len(unknown) > MAX_TIED:
        return dict(observed)
    tied = {name for name in unknown if _is_tied(observed[name], observed, weights)}
    return {name: tensor for name, tensor in observed.items() if name not in tied}


def _inner_prefix(observed: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> str:
    """What must be taken from every observed name to find a weight of its shape."""
    first = next(iter(observed))
    prefixes = {first[: -len(name)] for name in weights if first.endswith(f".{name}")}

    def fits(prefix: str, name: str, tensor: Tensor) -> bool:
        weight = weights.get(name.removeprefix(prefix))
        return name.startswith(prefix) and weight is not None and weight.shape == tensor.shape

    fitting = [p for p in prefixes if all(fits(p, name, t) for name, t in observed.items())]
    return fitting[0] if len(fitting) == 1 else ""


def _is_tied(tensor: Tensor, observed: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> bool:
    """Whether another observed tensor, which has a weight, is the same one."""
    return any(
        name in weights and other.dtype == tensor.dtype and torch.equal(other, tensor)
        for name, other in observed.items()
    )
