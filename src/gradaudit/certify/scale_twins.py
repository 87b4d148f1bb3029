r"""Two multiples of one record with the same gradient.

Where the network is positively homogeneous at an input, :math:`u(s x) = s u(x)`, and ends in a
single logit, the gradient of the logistic loss at s x is that at x times :math:`s (1 + e^\mu) /
(1 + e^{s \mu})`, :math:`\mu` the margin: for :math:`\mu > 0`, one other s makes that one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gradaudit.models.losses import Loss
from gradaudit.rgap.lambert import margins, product

# How exactly doubling an input must double the outputs.
HOMOGENEOUS = 1e-9
# Nearer to one, the two multiples are the same record for every purpose.
SAME = 1e-6
# Classes from which on a multiple of a gradient shows a record: two have but one direction.
CLASSES_FOR_A_FACTOR = 3


@dataclass(frozen=True)
class ScaleTwin:
    """Another multiple of a record with the same gradient.

    Attributes:
        factor: What to multiply the record by.
        margin: Of the record itself.
    """

    factor: float
    margin: float


def scale_twin(
    predict: Callable[[Tensor], Tensor],
    loss: Loss,
    inputs: Float[Tensor, "b ..."],
    labels: Shaped[Tensor, "b ..."],
) -> ScaleTwin | None:
    """The other multiple of a single record that has its gradient, or None.

    Args:
        predict: The network.
        loss: The client's.
        inputs: The record.
        labels: Its class.

    Source:
        R-GAP (arXiv 2010.07733), section 3.1: "twin data".

    Example:
        >>> from gradaudit.models.losses import get_loss
        >>> twin = scale_twin(lambda x: x.sum(1, keepdim=True), get_loss("binary_cross_entropy"),
        ...                   torch.full((1, 2), 1.5).double(), torch.tensor([1]))
        >>> round(twin.factor, 3)
        0.114
    """
    if len(inputs) != 1 or bool((labels != labels.round()).any()):
        return None
    if not rests_on_loss(predict, inputs):
        return None
    with torch.no_grad():
        outputs = predict(inputs)
    margin = _margin(loss.name, outputs[0].reshape(-1), labels)
    if margin is None or float(margin) <= 0:
        return None
    larger, smaller = margins(product(margin[None]))
    both = [
        float(solution[0][0] / margin) for solution in (larger, smaller) if bool(solution[2][0])
    ]
    others = [factor for factor in both if abs(factor - 1) > SAME]
    return ScaleTwin(others[0], float(margin)) if others else None


def rests_on_loss(predict: Callable[[Tensor], Tensor], inputs: Float[Tensor, "b ..."]) -> bool:
    """Whether the size of the inputs follows from the loss alone.

    A positively homogeneous network with a single logit, or two classes, has the gradient of a
    record for any multiple of it under some other loss.

    Args:
        predict: The network.
        inputs: Where.

    Example:
        >>> rests_on_loss(lambda x: x.sum(1, keepdim=True), torch.ones(1, 2).double())
        True
    """
    with torch.no_grad():
        outputs, doubled = predict(inputs), predict(2 * inputs)
    difference = float((doubled - 2 * outputs).norm())
    return outputs[0].numel() <= 2 and difference <= HOMOGENEOUS * float(outputs.norm())


def tells_the_factor(
    predict: Callable[[Tensor], Tensor], loss: Loss, inputs: Float[Tensor, "b ..."]
) -> bool:
    """Whether a record's gradient at the outputs is no multiple of every other record's.

    Args:
        predict: The network.
        loss: The client's.
        inputs: Where.
    """
    outputs = predict(inputs)
    return loss.name == "cross_entropy" and outputs[0].numel() >= CLASSES_FOR_A_FACTOR


def _margin(loss: str, outputs: Tensor, labels: Tensor) -> Tensor | None:
    """How far the label's logit leads, where a single difference of logits decides the loss."""
    label = int(labels.reshape(-1)[0])
    if loss == "binary_cross_entropy" and len(outputs) == 1:
        return outputs[0] if label == 1 else -outputs[0]
    if loss == "cross_entropy" and len(outputs) == 2:
        return outputs[label] - outputs[1 - label]
    return None
