"""Classes of a batch, read off the gradient of the last layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.gradient_matching.target import Target, UnsuitedError

# Random inputs by which the network's mean output is estimated.
PROBES = 64
GIVE = "Give the labels, or use the attack 'dlg', which searches for them."


@dataclass(frozen=True, eq=False)
class Labels:
    """Classes, one a record.

    Attributes:
        classes: In ascending order, as a batch has none.
        exact: Whether the gradient determines them, given the network and the loss.
        how: Where they are from, in words.
    """

    classes: Int[Tensor, " b"]
    exact: bool
    how: str


@dataclass(frozen=True, eq=False)
class _LastLayer:
    name: str
    weight: Tensor | None
    bias: Tensor | None


def infer_labels(target: Target, batch_size: int, *, generator: torch.Generator) -> Labels:
    r"""Read classes off the last layer's gradient.

    With p the predicted probabilities and y the one-hot labels, the gradient in the last bias is
    the batch's mean of :math:`p - y`. Of one record, only the true class has a negative entry;
    without a bias, the true class's row of :math:`(p - y) h^T` is the only one whose inner
    products with the other rows are negative. Of several records, the share of class c is
    :math:`\bar p_c - \partial L / \partial b_c`, with :math:`\bar p` estimated on random inputs;
    without a bias, the rows' sums stand for it. That estimate is good for a network before
    training and gets worse with it.

    Args:
        target: Gradient, network and loss.
        batch_size: Records.
        generator: Of the random inputs.

    Raises:
        UnsuitedError: The loss or the last layer does not allow it.

    Source:
        iDLG (arXiv 2001.02610), section 3, for one record; for several, the idea of LLG (arXiv
        2105.09369) with the shares rounded to whole records by largest remainder.
    """
    if target.loss.name not in ("cross_entropy", "binary_cross_entropy"):
        raise UnsuitedError(
            f"Labels cannot be read off the gradient of the loss {target.loss.name!r}.", GIVE
        )
    layer = _last_layer(target)
    if batch_size == 1:
        return Labels(_single(target, layer), True, "read off the last layer's gradient")
    shares = _shares(target, layer, generator)
    counts = _whole(batch_size * shares, batch_size)
    classes = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    return Labels(classes, False, "estimated from the last layer's gradient")


def _last_layer(target: Target) -> _LastLayer:
    """The fully connected layer whose output is the network's."""
    module = target.last_linear()
    prefix = f"{module}." if module else ""
    weight = target.gradient.get(f"{prefix}weight")
    bias = target.gradient.get(f"{prefix}bias")
    if module is None or (weight is None and bias is None):
        raise UnsuitedError("The network does not end in a fully connected layer.", GIVE)
    return _LastLayer(module, weight, bias)


def _single(target: Target, layer: _LastLayer) -> Int[Tensor, " 1"]:
    if layer.bias is not None:
        if target.outputs == 1:
            return (layer.bias < 0).long()
        return layer.bias.argmin()[None]
    assert layer.weight is not None  # noqa: S101 - one of the two is there
    if target.outputs < 3:
        raise UnsuitedError(
            "Of two classes, a last layer without a bias does not tell which is the record's.", GIVE
        )
    products = layer.weight @ layer.weight.T
    return (products.sum(1) - products.diagonal()).argmin()[None]


def _shares(
    target: Target, layer: _LastLayer, generator: torch.Generator
) -> Float[Tensor, " classes"]:
    """Each class's estimated share of the batch."""
    inputs = torch.randn(
        (PROBES, *target.input_shape),
        generator=generator,
        dtype=target.dtype,
        device=target.device,
    )
    with torch.no_grad():
        features, outputs = target.watch(inputs, layer.name)
    single = target.outputs == 1
    mean = outputs.sigmoid().mean(0) if single else outputs.softmax(1).mean(0)
    if layer.bias is not None:
        change = layer.bias
    else:
        assert layer.weight is not None  # noqa: S101 - one of the two is there
        change = layer.weight.sum(1) / features.flatten(1).sum(1).mean()
    shares = (mean - change).clamp(0.0, 1.0)
    shares = torch.cat([1 - shares, shares]) if single else shares
    return shares / shares.sum()


def _whole(amounts: Float[Tensor, " classes"], total: int) -> Int[Tensor, " classes"]:
    """Whole numbers of that total, nearest to these: the largest remainders are rounded up."""
    counts = amounts.floor().long()
    missing = total - int(counts.sum())
    remainders = amounts - counts
    counts[remainders.topk(missing).indices] += 1
    return counts
