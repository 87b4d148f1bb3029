"""One traced call as one step, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import fx, nn
from torch.nn import functional

from gradaudit.chain.activations import SOFTPLUS_THRESHOLD, Activation
from gradaudit.chain.layers import layer_step
from gradaudit.chain.maps import AveragePool, ChannelScale
from gradaudit.chain.refusals import AFTER_ACTIVATION, MIXED, NOT_INVERTIBLE, TRAINING, reason_for
from gradaudit.chain.steps import Affine, Reshape, Step, Unsolvable

# A step; reason and remedy where there is none; None for what changes nothing.
Translation: TypeAlias = Step | AveragePool | tuple[str, str] | None

# By module: the kind, and the attribute and default of its parameter.
_ACTIVATIONS: dict[Any, tuple[str, str, float]] = {
    nn.ReLU: ("relu", "", 1.0),
    nn.LeakyReLU: ("leaky_relu", "negative_slope", 0.01),
    nn.Sigmoid: ("sigmoid", "", 1.0),
    nn.Tanh: ("tanh", "", 1.0),
    nn.ELU: ("elu", "alpha", 1.0),
    nn.Softplus: ("softplus", "beta", 1.0),
}
_CALLS: dict[Any, type[nn.Module]] = {
    functional.relu: nn.ReLU,
    functional.relu_: nn.ReLU,
    torch.relu: nn.ReLU,
    torch.relu_: nn.ReLU,
    "relu": nn.ReLU,
    "relu_": nn.ReLU,
    functional.leaky_relu: nn.LeakyReLU,
    functional.sigmoid: nn.Sigmoid,
    torch.sigmoid: nn.Sigmoid,
    "sigmoid": nn.Sigmoid,
    functional.tanh: nn.Tanh,
    torch.tanh: nn.Tanh,
    "tanh": nn.Tanh,
    functional.elu: nn.ELU,
    functional.softplus: nn.Softplus,
}
_RESHAPES: tuple[Any, ...] = (
    nn.Flatten,
    nn.Unflatten,
    torch.flatten,
    torch.reshape,
    torch.squeeze,
    torch.unsqueeze,
    *("flatten", "view", "reshape", "squeeze", "unsqueeze", "contiguous"),
)
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d)
_ADAPTIVE = (nn.AdaptiveAvgPool2d, functional.adaptive_avg_pool2d)
_POOLS = (nn.AvgPool2d, functional.avg_pool2d)


@dataclass(frozen=True)
class Call:
    """A node of the graph, with what is called there.

    Attributes:
        node: Of the graph.
        name: The module's path, or the node's own name.
        kind: The module's class, the function, or the method's name.
        module: The module, if it is one.
        before: Shape of the value it is given, without the batch.
        after: Shape of its result.
    """

    node: fx.Node
    name: str
    kind: Any
    module: Any
    before: tuple[int, ...]
    after: tuple[int, ...]

    def argument(self, place: int, name: str, default: Any) -> Any:
        """The module's attribute, or the call's argument, wherever it was written."""
        if self.module is not None:
            return getattr(self.module, name, default)
        args = self.node.args
        return args[place] if len(args) > place else self.node.kwargs.get(name, default)


class Translator:
    """Turns nodes into steps.

    Args:
        model: The traced module.
        shapes: By node, of its value for two records.
    """

    def __init__(self, model: nn.Module, shapes: Mapping[fx.Node, tuple[int, ...]]) -> None:
        self._model, self._shapes = model, shapes
        self._parameters = dict(model.named_parameters(remove_duplicate=False))
        self._seen: set[int] = set()

    def step(self, node: fx.Node, source: fx.Node) -> Step | AveragePool | None:
        """The step from one node's value to the next; None if it changes nothing."""
        before, after = self._shapes[source], self._shapes[node]
        module = self._model.get_submodule(str(node.target)) if node.op == "call_module" else None
        call = Call(
            node,
            node.name if module is None else str(node.target),
            node.target if module is None else type(module),
            module,
            before[1:],
            after[1:],
        )
        found = MIXED if after[0] != before[0] else self._translate(call)
        if isinstance(found, tuple):
            return Unsolvable(call.name, *found, call.before, call.after)
        return found

    def _translate(self, call: Call) -> Translation:
        if isinstance(call.module, nn.Linear | nn.Conv2d):
            return layer_step(
                call.name, call.module, self._parameters, self._seen, (call.before, call.after)
            )
        for kinds, translate in _RULES:
            if call.kind in kinds:
                return translate(call)
        return reason_for(getattr(call.kind, "__name__", str(call.kind)))


def append(steps: list[Step], step: Step | AveragePool) -> None:
    """Add a step to a chain, folding it into the layer before it where it can be."""
    last = steps[-1] if steps else None
    if isinstance(step, AveragePool | ChannelScale) and isinstance(last, Affine):
        steps[-1] = replace(last, after=(*last.after, step))
    elif isinstance(step, AveragePool):
        steps.append(Unsolvable(step.name, *AFTER_ACTIVATION, step.input_shape, step.output_shape))
    elif isinstance(step, ChannelScale) and not step.invertible:
        steps.append(Unsolvable(step.name, *NOT_INVERTIBLE, step.shape, step.shape))
    else:
        steps.append(step)


def _nothing(call: Call) -> Translation:
    return None


def _reshape(call: Call) -> Translation:
    return None if call.before == call.after else Reshape(call.name, call.before, call.after)


def _dropout(call: Call) -> Translation:
    training = call.argument(2, "training", True)
    return TRAINING if training and call.argument(1, "p", 0.5) > 0 else None


def _activation(call: Call) -> Translation:
    word, attribute, default = _ACTIVATIONS[_CALLS.get(call.kind, call.kind)]
    slope = float(call.argument(1, attribute, default)) if attribute else default
    threshold = call.argument(2, "threshold", SOFTPLUS_THRESHOLD)
    if word == "softplus" and threshold != SOFTPLUS_THRESHOLD:
        return reason_for("threshold")
    if word == "leaky_relu" and slope == 0:
        word = "relu"
    elif slope <= 0:
        return reason_for("falling")
    return Activation(call.name, word, call.before, slope)


def _normalisation(call: Call) -> Translation:
    layer = call.module
    if layer.training or layer.running_mean is None or layer.running_var is None:
        return TRAINING
    scale = (layer.running_var + layer.eps).rsqrt()
    if layer.weight is not None:
        scale = scale * layer.weight
    shift = -layer.running_mean * scale
    if layer.bias is not None:
        shift = shift + layer.bias
    return ChannelScale(call.name, scale.detach(), shift.detach(), call.before)


def _adaptive(call: Call) -> Translation:
    before, after = call.before, call.after
    if len(before) != 3:
        return reason_for("pooling without channels")
    kernel = before[1] // after[1], before[2] // after[2]
    if (kernel[0] * after[1], kernel[1] * after[2]) != before[1:]:
        return reason_for("uneven pooling")
    return AveragePool(call.name, before, after, kernel, kernel)


def _pool(call: Call) -> Translation:
    if len(call.before) != 3:
        return reason_for("pooling without channels")
    kernel = call.argument(1, "kernel_size", 1)
    stride = call.argument(2, "stride", None)
    return AveragePool(
        call.name,
        call.before,
        call.after,
        _pair(kernel),
        _pair(kernel if stride is None else stride),
        _pair(call.argument(3, "padding", 0)),
        bool(call.argument(5, "count_include_pad", True)),
        call.argument(6, "divisor_override", None),
        bool(call.argument(4, "ceil_mode", False)),
    )


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    return int(value[0]), int(value[-1])


_RULES: tuple[tuple[tuple[Any, ...], Callable[[Call], Translation]], ...] = (
    ((*_ACTIVATIONS, *_CALLS), _activation),
    (_RESHAPES, _reshape),
    ((nn.Identity,), _nothing),
    ((*_DROPOUTS, functional.dropout), _dropout),
    (_NORMALISATIONS, _normalisation),
    (_ADAPTIVE, _adaptive),
    (_POOLS, _pool),
)
