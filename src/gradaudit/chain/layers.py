"""Fully connected layers and convolutions as steps, with the names of their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from gradaudit.chain.refusals import reason_for
from gradaudit.chain.steps import Affine


def layer_step(
    name: str,
    layer: nn.Linear | nn.Conv2d,
    parameters: Mapping[str, Tensor],
    seen: set[int],
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> Affine | tuple[str, str]:
    """A layer as a step, or reason and remedy where its gradient is not that of one plain weight.

    Args:
        name: Module path.
        layer: The module.
        parameters: Of the whole model, by name.
        seen: Identities of the weights met so far; this layer's are added.
        shapes: Of its input and output, without the batch.
    """
    weight_name, bias_name = f"{name}.weight", f"{name}.bias"
    weight, bias = parameters.get(weight_name), parameters.get(bias_name)
    if weight is None or (layer.bias is not None and bias is None):
        return reason_for("computed weight")
    own = {id(tensor) for tensor in (weight, bias) if tensor is not None}
    if seen & own:
        return reason_for("shared weight")
    seen |= own
    common: dict[str, Any] = {
        "name": name,
        "weight": weight.detach(),
        "bias": None if bias is None else bias.detach(),
        "input_shape": shapes[0],
        "layer_shape": shapes[1],
        "weight_name": weight_name,
        "bias_name": None if bias is None else bias_name,
    }
    if isinstance(layer, nn.Linear):
        return Affine(**common) if len(shapes[0]) == 1 else reason_for("batched linear")
    if layer.padding_mode != "zeros":
        return reason_for("padding mode")
    padding = _padding(layer)
    if padding is None:
        return reason_for("uneven padding")
    stride, dilation = layer.stride, layer.dilation
    return Affine(
        **common,
        stride=(stride[0], stride[1]),
        padding=padding,
        dilation=(dilation[0], dilation[1]),
        groups=layer.groups,
    )


def _padding(layer: nn.Conv2d) -> tuple[int, int] | None:
    """Zeros on either side; None where the two sides differ."""
    if layer.padding == "same":
        reach = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        return None if any(r % 2 for r in reach) else (reach[0] // 2, reach[1] // 2)
    return (0, 0) if isinstance(layer.padding, str) else (layer.padding[0], layer.padding[1])
