"""Loss functions by name: the one place that clients and the audit take them from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn import functional

from gradaudit.errors import InputError

# Stands for `usual_loss` where a loss may be left open.
AUTO = "auto"
REDUCTIONS = ("none", "mean", "sum")


@dataclass(frozen=True)
class Loss:
    """A loss that is one number a record, and how the batch is reduced.

    Attributes:
        name: One of `LOSSES`, or the name of the caller's function.
        per_record: Maps outputs (b, c) and labels to losses (b,).
        check_labels: Raises an `InputError` for outputs and labels that do not belong together.
            Separate from the call, which therefore may run under ``torch.func`` transforms.

    Example:
        >>> import torch
        >>> loss = get_loss("cross_entropy")
        >>> float(loss(torch.zeros(2, 4), torch.tensor([0, 3]), reduction="sum")) > 2.77
        True
    """

    name: str
    per_record: Callable[[Tensor, Tensor], Tensor]
    check_labels: Callable[[Tensor, Tensor], None]

    def __call__(
        self,
        outputs: Float[Tensor, "b ..."],
        labels: Shaped[Tensor, "b ..."],
        reduction: str = "mean",
    ) -> Float[Tensor, " ..."]:
        """The loss of a batch.

        Args:
            outputs: The network's outputs.
            labels: One label a record.
            reduction: ``"mean"`` or ``"sum"`` over records, or ``"none"``.

        Raises:
            InputError: Another reduction, or a caller's function that is not one loss a record.
        """
        if reduction not in REDUCTIONS:
            raise InputError("reduction", repr(reduction), "one of " + ", ".join(REDUCTIONS))
        losses = self.per_record(outputs, labels)
        if not isinstance(losses, Tensor) or losses.shape != outputs.shape[:1]:
            found = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise InputError(
                f"loss {self.name!r}",
                f"{found} for {len(outputs)} records",
                f"one loss a record, ({len(outputs)},)",
                "reduce nothing in it (reduction='none' in torch's losses)",
            )
        if reduction == "none":
            return losses
        return losses.mean() if reduction == "mean" else losses.sum()


def get_loss(loss: str | Loss | Callable[[Tensor, Tensor], Tensor]) -> Loss:
    """The loss of a name, or a caller's function as a loss.

    - ``cross_entropy``: -log softmax(outputs)[label]; labels are classes (b,) or distributions
      over classes (b, c).
    - ``binary_cross_entropy``: with logits; outputs (b, 1) or (b,), labels in [0, 1].
    - ``mse``: mean over the outputs of (output - target)^2; targets have the outputs' shape, or
      are classes (b,), which stand for one-hot rows. ``reduction="mean"`` is then torch's;
      ``"sum"`` sums over records and still averages over outputs.

    Args:
        loss: A name, a `Loss`, or a function of outputs and labels that gives one loss a record.

    Raises:
        InputError: No such name.

    Example:
        >>> import torch
        >>> get_loss("mse")(torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, 0.0]]))
        tensor(5.)
    """
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        return Loss(getattr(loss, "__name__", type(loss).__name__), loss, _check_nothing)
    if loss not in LOSSES:
        raise InputError("loss", repr(loss), "one of " + ", ".join(LOSSES) + ", or a function")
    return LOSSES[loss]


def _is_classes(labels: Tensor) -> bool:
    return labels.ndim == 1 and not labels.is_floating_point()


def _check_count(outputs: Tensor, labels: Tensor) -> None:
    if labels.ndim < 1 or len(labels) != len(outputs):
        found = f"{len(labels)} labels" if labels.ndim else "a single number"
        raise InputError("labels", found, f"one a record, {len(outputs)}")


def _check_classes(outputs: Tensor, labels: Tensor) -> None:
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= outputs.shape[1]:
        raise InputError(
            "labels",
            f"the class {low if low < 0 else high}",
            f"0 to {outputs.shape[1] - 1}, as the network has {outputs.shape[1]} outputs",
            "give the network one output a class",
        )


def _check_nothing(outputs: Tensor, labels: Tensor) -> None:
    _check_count(outputs, labels)


def _check_cross_entropy(outputs: Tensor, labels: Tensor) -> None:
    _check_count(outputs, labels)
    if outputs.ndim != 2 or outputs.shape[1] < 2:
        raise InputError(
            "model",
            f"outputs of shape {tuple(outputs.shape)}",
            "(records, classes) with two classes or more for cross_entropy",
            "use binary_cross_entropy for a single logit",
        )
    if _is_classes(labels):
        _check_classes(outputs, labels)
    elif labels.shape != outputs.shape or not labels.is_floating_point():
        raise InputError(
            "labels",
            f"shape {tuple(labels.shape)} of {labels.dtype}",
            f"classes ({len(outputs)},) or distributions {tuple(outputs.shape)}",
        )


def _check_binary(outputs: Tensor, labels: Tensor) -> None:
    _check_count(outputs, labels)
    if outputs.numel() != len(outputs):
        raise InputError(
            "model",
            f"outputs of shape {tuple(outputs.shape)}",
            "a single logit a record for binary_cross_entropy",
            "use cross_entropy for several classes",
        )
    if labels.numel() != len(outputs):
        raise InputError("labels", f"shape {tuple(labels.shape)}", f"({len(outputs)},)")
    low, high = float(labels.min()), float(labels.max())
    if not (low >= 0 and high <= 1):
        raise InputError(
            "labels",
            f"values from {low:g} to {high:g}",
            "values from 0 to 1 for binary_cross_entropy",
            "take records of the classes 0 and 1, as label=1 does",
        )


def _check_mse(outputs: Tensor, labels: Tensor) -> None:
    _check_count(outputs, labels)
    if _is_classes(labels) and outputs.ndim == 2 and outputs.shape[1] > 1:
        _check_classes(outputs, labels)
    elif labels.numel() != outputs.numel():
        raise InputError(
            "labels",
            f"shape {tuple(labels.shape)}",
            f"targets {tuple(outputs.shape)} or classes ({len(outputs)},)",
        )


def _cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    target = labels.long() if _is_classes(labels) else labels.to(outputs.dtype)
    return functional.cross_entropy(outputs, target, reduction="none")


def _binary_cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    target = labels.reshape(-1).to(outputs.dtype)
    return functional.binary_cross_entropy_with_logits(
        outputs.reshape(-1), target, reduction="none"
    )


def _mse(outputs: Tensor, labels: Tensor) -> Tensor:
    if _is_classes(labels) and outputs.ndim == 2 and outputs.shape[1] > 1:
        # one_hot looks at values, which torch.func's vmap forbids.
        labels = labels[:, None] == torch.arange(outputs.shape[1], device=labels.device)
    difference = outputs - labels.reshape(outputs.shape).to(outputs.dtype)
    return difference.reshape(len(outputs), -1).square().mean(dim=1)


def usual_loss(outputs: int | None) -> str:
    """Name of the loss that a classifier with so many outputs is usually trained with.

    Args:
        outputs: How many, or None when unknown.

    Example:
        >>> usual_loss(1), usual_loss(10)
        ('binary_cross_entropy', 'cross_entropy')
    """
    # Of a single logit, the softmax is constant: cross_entropy has no gradient.
    return "binary_cross_entropy" if outputs == 1 else "cross_entropy"


LOSSES: dict[str, Loss] = {
    "cross_entropy": Loss("cross_entropy", _cross_entropy, _check_cross_entropy),
    "binary_cross_entropy": Loss("binary_cross_entropy", _binary_cross_entropy, _check_binary),
    "mse": Loss("mse", _mse, _check_mse),
}
