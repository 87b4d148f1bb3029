"""Which layers an update has, and what part each plays."""

from __future__ import annotations

from dataclasses import dataclass

from gradaudit.models import InferredModel, infer_mlp
from gradaudit.update import LinearLayer, Update, layer_name


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """The layers of an update in the order in which an audit looks at them.

    Attributes:
        linear: Fully connected layers with their roles, the most revealing first.
        other: Names, shapes and reasons of tensors that no linear-layer attack takes.
        guess: The fully connected ReLU network that the weights look like, if they do.
        order: Names of all layers, the first one first.
    """

    linear: tuple[tuple[LinearLayer, str], ...]
    other: tuple[tuple[str, tuple[int, ...], str], ...]
    guess: InferredModel
    order: tuple[str, ...]

    def before(self, layer: LinearLayer) -> tuple[str, ...]:
        """Names of the layers that come before one."""
        return self.order[: self.order.index(layer.name)]


def plan_layers(update: Update) -> LayerPlan:
    """Sort an update's layers by role: input first, then interior, then output.

    The order is that of the weights' sizes if they form one chain, else the update's own. A layer
    behind a convolution or an embedding is interior even if it is the first linear one: its inputs
    are features, not records.

    Args:
        update: Any update.
    """
    guess = infer_mlp(update.weights)
    layers = list(update.linear_layers())
    names = [layer.name for layer in layers]
    if guess.model is not None:
        order = guess.layers
        layers.sort(key=lambda layer: order.index(layer.name))
        first, last = guess.layers[0], guess.layers[-1]
    else:
        order = tuple(dict.fromkeys(name.rpartition(".")[0] for name in update.weights))
        weights = [layer_name(n) for n, w in update.weights.items() if w.ndim >= 2]
        first = weights[0] if weights else ""
        last = weights[-1] if weights else ""
    linear = []
    for layer in layers:
        role = "input" if layer.name == first else "output" if layer.name == last else "interior"
        linear.append((layer, role))
    return LayerPlan(tuple(linear), tuple(_others(update, set(names))), guess, order)


def is_output(plan: LayerPlan, layer: LinearLayer) -> bool:
    """Whether the loss follows the layer directly, as far as the weights show."""
    return bool(plan.linear) and plan.linear[-1][0].name == layer.name


def _others(update: Update, linear: set[str]) -> list[tuple[str, tuple[int, ...], str]]:
    others = []
    for name, change in update.observed.items():
        layer, _, part = name.rpartition(".")
        if layer in linear and part in ("weight", "bias"):
            continue
        if part == "weight" and change.ndim >= 3:
            reason = (
                f"Not fully connected: a {change.ndim}-dimensional weight, as of a convolution."
            )
        elif change.ndim <= 1 and part == "bias":
            continue
        else:
            reason = "Not the weight of a fully connected layer (normalisation or other)."
        others.append((layer or name, tuple(change.shape), reason))
    return others
