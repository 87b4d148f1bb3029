"""The fully connected ReLU network that an update's weights look like, as a hypothesis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

# Orders of layers tried before the weights count as ambiguous.
_MAX_STEPS = 10_000


@dataclass(frozen=True, eq=False)
class InferredModel:
    """A guess of the network behind a set of weights, or why there is none.

    Shapes do not show the activation, nor a layer that has no weights. Whoever uses the guess must
    test it, by recomputing a gradient with it.

    Attributes:
        model: The ReLU network whose parameters carry the weights' own names, or None.
        layers: The layers' names from input to output; empty without a model.
        reason: How the order was found, or why there is no model; one sentence.
    """

    model: nn.Module | None
    layers: tuple[str, ...]
    reason: str


class _FlatLinear(nn.Linear):
    """A layer without a name of its own (``weight``, ``bias``) that takes images too."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.flatten(1))


def infer_mlp(weights: Mapping[str, Float[Tensor, " ..."]]) -> InferredModel:
    """Guess the ReLU network whose state dict these weights are.

    They must be a chain of matrices (m, n), each with or without a bias (m,), where every layer
    takes as many inputs as the one before has outputs. The given order is used if it fits (after
    numbers in names are put in order when the names come sorted as text, as some file formats
    leave them); any other order only if it is the only one that fits.

    Args:
        weights: Tensors by name, such as ``"net.0.weight"``. The model's parameters share memory
            with them.

    Returns:
        The guess. ``torch.func.functional_call(guess.model, weights, (inputs,))`` works with it.

    Example:
        >>> import torch
        >>> guess = infer_mlp({"net.0.weight": torch.ones(3, 4), "net.2.weight": torch.ones(2, 3)})
        >>> guess.layers, guess.model(torch.ones(1, 2, 2)).shape
        (('net.0', 'net.2'), torch.Size([1, 2]))
        >>> infer_mlp({"conv.weight": torch.ones(3, 1, 2, 2)}).reason
        "'conv.weight' has shape (3, 1, 2, 2) and is no matrix of a fully connected layer."
    """
    objection = _objection(weights)
    if objection:
        return InferredModel(None, (), objection)
    sizes = {
        name.rpartition(".")[0]: _sizes(tensor)
        for name, tensor in weights.items()
        if tensor.ndim == 2
    }
    order, how = _order(sizes)
    if order is None:
        return InferredModel(None, (), how)
    model = _build(order, weights)
    if model is None:
        how = "The layers' names cannot be nested in the order in which their sizes fit."
        return InferredModel(None, (), how)
    return InferredModel(model, tuple(order), how)


def _objection(weights: Mapping[str, Tensor]) -> str:
    """Why these tensors are not those of fully connected layers, or nothing."""
    outputs: dict[str, int] = {}
    for name, tensor in weights.items():
        if _last(name) != "weight":
            continue
        if tensor.ndim != 2 or 0 in tensor.shape:
            return (
                f"{name!r} has shape {tuple(tensor.shape)} and is no matrix of a fully connected "
                "layer."
            )
        outputs[name.rpartition(".")[0]] = len(tensor)
    for name, tensor in weights.items():
        layer = name.rpartition(".")[0]
        if _last(name) == "weight":
            continue
        if _last(name) != "bias" or layer not in outputs:
            return f"{name!r} is no weight or bias of a fully connected layer."
        if tensor.shape != (outputs[layer],):
            return f"{name!r} has shape {tuple(tensor.shape)}, which is not its layer's."
    if len({(tensor.dtype, tensor.device) for tensor in weights.values()}) > 1:
        return "The weights are of several floating-point types or on several devices."
    return "" if outputs else "No tensor is named as the weight of a layer."


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _sizes(matrix: Tensor) -> tuple[int, int]:
    """(inputs, outputs)."""
    return matrix.shape[1], matrix.shape[0]


def _order(sizes: Mapping[str, tuple[int, int]]) -> tuple[list[str] | None, str]:
    given = list(sizes)
    numbered = sorted(given, key=_natural)
    orders = [(given, "The layers fit one after another in the given order.")]
    if given == sorted(given) and numbered != given:
        orders.insert(0, (numbered, "The layers fit in the order of the numbers in their names."))
    for order, how in orders:
        if _fits(order, sizes):
            return order, how
    found = _chains(sizes)
    if len(found) == 1:
        return found[0], "Only one order of the layers fits."
    if not found:
        return None, "The layers' sizes do not fit one after another in any order."
    return None, "The layers' sizes fit one after another in several orders."


def _natural(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)
    ]


def _fits(order: Sequence[str], sizes: Mapping[str, tuple[int, int]]) -> bool:
    return all(sizes[a][1] == sizes[b][0] for a, b in pairwise(order))


def _chains(sizes: Mapping[str, tuple[int, int]]) -> list[list[str]]:
    """Up to two orders that fit; two also when there are too many to tell."""
    found: list[list[str]] = []
    stack: list[list[str]] = [[name] for name in sizes]
    for _ in range(_MAX_STEPS):
        if not stack or len(found) > 1:
            return found
        path = stack.pop()
        if len(path) == len(sizes):
            found.append(path)
            continue
        stack += [
            [*path, name]
            for name in sizes
            if name not in path and sizes[name][0] == sizes[path[-1]][1]
        ]
    return [[], []]


def _build(order: Sequence[str], weights: Mapping[str, Tensor]) -> nn.Module | None:
    if list(order) == [""]:
        bare = _FlatLinear(*_sizes(weights["weight"]), bias="bias" in weights, device="meta")
        return _adopt(bare, "", weights)
    model = nn.Sequential()
    parts = {part for name in order for part in name.split(".")}
    model.add_module(_unused("flatten", parts), nn.Flatten())
    for number, name in enumerate(order, start=1):
        *parents, leaf = name.split(".")
        container = model
        for parent in parents:
            if not parent or (parent not in container._modules and hasattr(container, parent)):
                return None
            if parent not in container._modules:
                container.add_module(parent, nn.Sequential())
            child = container._modules[parent]
            if not isinstance(child, nn.Sequential):
                return None
            container = child
        if not leaf or hasattr(container, leaf):
            return None
        weight = weights[f"{name}.weight"]
        layer = nn.Linear(*_sizes(weight), bias=f"{name}.bias" in weights, device="meta")
        container.add_module(leaf, _adopt(layer, f"{name}.", weights))
        if number < len(order):
            container.add_module(_unused(f"relu{number}", parts), nn.ReLU())
    # Sequential runs in the order of insertion, unless a folder of names was left and re-entered.
    built = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return model if built == list(order) else None


def _adopt(layer: nn.Linear, prefix: str, weights: Mapping[str, Tensor]) -> nn.Linear:
    """Give a layer, made without memory, the tensors themselves."""
    layer.weight = nn.Parameter(weights[f"{prefix}weight"].detach())
    if f"{prefix}bias" in weights:
        layer.bias = nn.Parameter(weights[f"{prefix}bias"].detach())
    return layer


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
