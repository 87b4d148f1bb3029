r"""The last layer: its input and its output gradient, from its own gradient and the loss.

With a bias, the bias gradient is the output gradient k, and the weight gradient :math:`k x^T` gives
x, whatever the loss. Without one, :math:`k x^T` fixes both only up to a factor, which the loss
gives: a softmax of three classes or more by a regression, a single logit by an equation that may
have two solutions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.chain import Affine
from gradaudit.rgap.lambert import margins
from gradaudit.rgap.refusal import NotSolvableError

# Singular values beyond the first may exceed what noise alone gives by this much.
RANK_MARGIN = 8.0


@dataclass(frozen=True, eq=False)
class Start:
    """One way to begin the recursion: the input of the last layer. One problem a row.

    Attributes:
        name: Of the solution, for a person; empty if there is but one.
        inputs: x, flat.
        error: Standard deviation of its entries.
        output_gradient: k.
        gradient_error: Its relative error.
        label: The class; -1 where the loss does not tell.
        valid: Where this solution exists.
    """

    name: str
    inputs: Float[Tensor, "p n"]
    error: Float[Tensor, "p 1"]
    output_gradient: Float[Tensor, "p m"]
    gradient_error: Float[Tensor, " p"]
    label: Int[Tensor, " p"]
    valid: Bool[Tensor, " p"]


@dataclass(frozen=True, eq=False)
class LastLayer:
    """What was observed of the last layer. One problem a row.

    Attributes:
        layer: A fully connected layer, with weights in float64.
        gradient: Of its weight.
        noise: Standard deviation of the gradient's entries, by output.
        bias_gradient: None without a bias.
        bias_noise: Standard deviation of its entries.
        loss: Name of the loss.
        scale_known: Whether the gradient is that of one record's loss, and no multiple of it.
    """

    layer: Affine
    gradient: Float[Tensor, "p m n"]
    noise: Float[Tensor, "p m"]
    bias_gradient: Float[Tensor, "p m"] | None
    bias_noise: Float[Tensor, "p m"] | None
    loss: str
    scale_known: bool


def starts(last: LastLayer) -> tuple[Start, ...]:
    """All inputs of the last layer that explain its gradient.

    Args:
        last: What was observed.

    Raises:
        NotSolvableError: The case is none of those that can be solved.

    Source:
        R-GAP (arXiv 2010.07733), section 3.1, for the single logit; the softmax is ours.
    """
    if not bool((last.gradient != 0).flatten(1).any(1).all()):
        raise NotSolvableError(
            f"The gradient of the last layer, {last.layer.name!r}, is zero in every entry.",
            "Check that the update belongs to these weights.",
        )
    if last.bias_gradient is not None:
        return (_with_bias(last, last.bias_gradient),)
    _check_without_bias(last)
    outputs = len(last.layer.weight)
    if last.loss == "binary_cross_entropy":
        return _logistic(last, last.layer.weight[0], last.gradient[:, 0], classes=(0, 1))
    if outputs == 2:
        # Only the difference of two logits counts, as if it were a single one.
        difference = last.layer.weight[1] - last.layer.weight[0]
        found = _logistic(last, difference, last.gradient[:, 1], classes=(0, 1))
        return tuple(_doubled(start) for start in found)
    return (_softmax(last),)


def several_records(
    gradient: Float[Tensor, "p m n"], noise: Float[Tensor, "p m"]
) -> Bool[Tensor, " p"]:
    """Whether a fully connected layer's gradient has a rank above one, beyond its noise.

    Args:
        gradient: Of its weight.
        noise: Standard deviation of its entries, by output.
    """
    values = torch.linalg.svdvals(gradient)
    if values.shape[1] < 2:
        return torch.zeros(len(gradient), dtype=torch.bool, device=gradient.device)
    sides = gradient.shape[1] ** 0.5 + gradient.shape[2] ** 0.5
    return values[:, 1] > RANK_MARGIN * sides * noise.amax(1)


def _check_without_bias(last: LastLayer) -> None:
    name = last.layer.name
    if last.layer.bias is not None:
        raise NotSolvableError(
            f"The last layer, {name!r}, has a bias whose gradient was not observed.",
            "Capture the bias's gradient too.",
        )
    if last.layer.after:
        after = last.layer.after[0].name
        raise NotSolvableError(
            f"The last layer, {name!r}, has no bias and is followed by {after!r}.",
            "Audit a network whose last layer has a bias, or gives the logits themselves.",
        )
    if not last.scale_known:
        raise NotSolvableError(
            f"The last layer, {name!r}, has no bias, so that the gradient's size matters, and the "
            "update is a multiple of it by an unknown learning rate.",
            "Give the learning rate.",
        )
    if last.loss not in ("cross_entropy", "binary_cross_entropy"):
        raise NotSolvableError(
            f"The last layer, {name!r}, has no bias, and with the loss {last.loss!r} its gradient "
            "does not give its input in closed form.",
            "Audit a network whose last layer has a bias.",
        )


def _with_bias(last: LastLayer, k: Float[Tensor, "p m"]) -> Start:
    assert last.bias_noise is not None  # noqa: S101 - observed with the gradient
    squares = k.square().sum(1, keepdim=True)
    if not bool((squares > 0).all()):
        raise NotSolvableError(
            f"The bias gradient of the last layer, {last.layer.name!r}, is zero in every entry.",
            "Check that the update belongs to these weights.",
        )
    inputs = (last.gradient.mT @ k[..., None])[..., 0] / squares
    relative = last.bias_noise.norm(dim=1) / squares.sqrt()[:, 0]
    observed = (k * last.noise).square().sum(1, keepdim=True).sqrt() / squares
    own = relative[:, None] * inputs.square().mean(1, keepdim=True).sqrt()
    return Start(
        name="",
        inputs=inputs,
        error=torch.hypot(observed, own),
        output_gradient=k,
        gradient_error=relative,
        label=_label_of(last.loss, k),
        valid=torch.ones(len(k), dtype=torch.bool, device=k.device),
    )


def _label_of(loss: str, k: Float[Tensor, "p m"]) -> Int[Tensor, " p"]:
    """The class whose logit the loss wants larger; -1 where it is not the only one."""
    if loss == "binary_cross_entropy":
        return (k[:, 0] < 0).long()
    one = (loss == "cross_entropy") & ((k < 0).sum(1) == 1)
    return torch.where(one, k.argmin(1), -1)


def _logistic(
    last: LastLayer,
    weight: Float[Tensor, " n"],
    gradient: Float[Tensor, "p n"],
    classes: tuple[int, int],
) -> tuple[Start, ...]:
    r"""A single logit u = w x: with label y = 1 or -1, k = -y / (1 + exp(y u)).

    The product :math:`\langle w, \partial L / \partial w \rangle = k u` gives the margin y u, and
    that k, up to y: both labels, and both margins where there are two.
    """
    found = []
    product = gradient @ weight
    solutions = margins(product)
    noise = last.noise[:, -1]
    # What noise of the gradient's entries is in the product, and that in the margin.
    spread = noise * weight.norm()
    for place, (margin, slope, exists) in enumerate(solutions):
        for label, sign in zip(classes, (-1.0, 1.0), strict=True):
            k = -sign / (1 + margin.exp())
            # d log k = d margin / (1 + exp(-margin))
            relative = spread / slope.abs().clamp(min=1e-300) * margin.sigmoid()
            relative = relative.clamp(max=1.0)
            inputs = gradient / k[:, None]
            error = torch.hypot(noise / k.abs(), relative * inputs.square().mean(1).sqrt())
            found.append(
                Start(
                    name=("larger", "smaller")[place] + " margin",
                    inputs=inputs,
                    error=error[:, None],
                    output_gradient=k[:, None],
                    gradient_error=relative,
                    label=torch.full_like(exists, label, dtype=torch.int64),
                    valid=exists,
                )
            )
    return tuple(found)


def _doubled(start: Start) -> Start:
    """Two logits' output gradient from that of their difference."""
    k = start.output_gradient
    return Start(**{**vars(start), "output_gradient": torch.cat([-k, k], 1)})


def _softmax(last: LastLayer) -> Start:
    r"""Three classes or more: :math:`\partial L / \partial W = s a b^T`, k along a, x along b.

    The label's entry of k is the only negative one. For the others, :math:`\log a_c = |x| (W b)_c`
    plus a constant, so that the slope of a regression is the size of x.
    """
    left, values, right = torch.linalg.svd(last.gradient, full_matrices=False)
    a, b = left[:, :, 0], right[:, 0]
    # As many as are clearly of a sign; the label's entry is as large as all others together.
    flip = torch.where(a.gather(1, a.abs().argmax(1, keepdim=True)) > 0, -1.0, 1.0)
    a, b = a * flip, b * flip
    label = a.argmin(1)
    logits = b @ last.layer.weight.T
    noise = last.noise / values[:, :1]
    other = torch.ones_like(a, dtype=torch.bool).scatter(1, label[:, None], False)
    # An entry below its noise has no logarithm to speak of.
    trusted = other & (a > noise)
    weights = torch.where(trusted, (a / noise.clamp(min=1e-300)).square(), 0.0)
    logs = torch.where(trusted, a.clamp(min=1e-300), 1.0).log()
    size, spread = _slope(logits, logs, weights)
    valid = (trusted.sum(1) >= 2) & (size > 0) & torch.isfinite(size)
    size = torch.where(valid, size, 1.0)
    relative = torch.where(valid, spread / size, 1.0).clamp(max=1.0)
    k = a * (values[:, :1] / size[:, None])
    inputs = b * size[:, None]
    unit = last.noise.amax(1) / values[:, 0]
    error = torch.hypot(unit * size, relative * inputs.square().mean(1).sqrt())
    return Start("", inputs, error[:, None], k, relative, label, valid)


def _slope(
    x: Float[Tensor, "p m"], y: Float[Tensor, "p m"], weights: Float[Tensor, "p m"]
) -> tuple[Float[Tensor, " p"], Float[Tensor, " p"]]:
    """Weighted regression of y on x: the slope and its standard deviation."""
    total = weights.sum(1, keepdim=True).clamp(min=1e-300)
    x = x - (weights * x).sum(1, keepdim=True) / total
    y = y - (weights * y).sum(1, keepdim=True) / total
    squares = (weights * x.square()).sum(1)
    return (weights * x * y).sum(1) / squares, squares.rsqrt()
