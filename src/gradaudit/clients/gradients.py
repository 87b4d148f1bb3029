"""Gradients of a loss: of a batch, and of each of its records."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from gradaudit.errors import InputError
from gradaudit.models.losses import Loss

# Gradients of so many single records are held at a time as fit into this; two or three such
# blocks exist at once.
PORTION_BYTES = 2**28


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that require a gradient, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def batch_gradient(
    model: nn.Module,
    loss: Loss,
    inputs: Float[Tensor, "b ..."],
    labels: Shaped[Tensor, "b ..."],
    reduction: str,
) -> dict[str, Tensor]:
    """The gradient of a batch's loss with respect to every trained parameter.

    Args:
        model: In the mode in which it is to be run.
        loss: Of the batch.
        inputs: Network inputs.
        labels: One a record.
        reduction: ``"mean"`` or ``"sum"``.

    Raises:
        InputError: Model, loss and batch do not fit each other.
    """
    parameters = trained_parameters(model)
    with torch.enable_grad():
        outputs = checked_outputs(model, loss, inputs, labels)
        value = loss(outputs, labels, reduction)
        try:
            gradients = torch.autograd.grad(
                value, list(parameters.values()), materialize_grads=True
            )
        except RuntimeError as error:
            raise InputError(
                "loss", f"a value without a gradient ({error})", "a differentiable loss"
            ) from error
    return dict(zip(parameters, (g.detach() for g in gradients), strict=True))


def record_gradients(
    model: nn.Module,
    loss: Loss,
    inputs: Float[Tensor, "b ..."],
    labels: Shaped[Tensor, "b ..."],
    portion_bytes: int = PORTION_BYTES,
) -> Iterator[dict[str, Tensor]]:
    """The gradient of each record's own loss, in portions of the batch.

    Args:
        model: In the mode in which it is to be run; no layer may mix records.
        loss: Of a record.
        inputs: Network inputs.
        labels: One a record.
        portion_bytes: How much the gradients of one portion may take; one record at least.

    Yields:
        By parameter, one record a row, (portion, ...).

    Raises:
        InputError: Model, loss and batch do not fit each other, or a layer mixes records.
    """
    _check_apart(model)
    with torch.no_grad():
        checked_outputs(model, loss, inputs, labels)
    values = {name: p.detach() for name, p in trained_parameters(model).items()}

    def record_loss(values: dict[str, Tensor], record: Tensor, label: Tensor) -> Tensor:
        outputs = functional_call(model, values, (record[None],))
        return loss(outputs, label[None], "sum")

    # Dropout draws for each record by itself, as it does in a batch.
    gradients = vmap(grad(record_loss), in_dims=(None, 0, 0), randomness="different")
    of_one = sum(value.numel() * value.element_size() for value in values.values())
    count = max(1, portion_bytes // of_one)
    for records, classes in zip(
        torch.split(inputs, count), torch.split(labels, count), strict=True
    ):
        try:
            yield gradients(values, records, classes)
        except RuntimeError as error:
            raise InputError(
                "model",
                f"an operation without gradients of single records ({error})",
                "a model that torch.func can map over records",
            ) from error


def checked_outputs(
    model: nn.Module,
    loss: Loss,
    inputs: Float[Tensor, "b ..."],
    labels: Shaped[Tensor, "b ..."],
) -> Tensor:
    """Run the model, and check that its outputs, the labels and the loss belong together.

    Raises:
        InputError: They do not.
    """
    try:
        outputs = model(inputs)
    except (RuntimeError, ValueError, TypeError) as error:
        raise InputError(
            "inputs",
            f"a batch of shape {tuple(inputs.shape)} that the model refuses ({error})",
            "the shape that the model takes",
        ) from error
    if not isinstance(outputs, Tensor) or outputs.shape[:1] != inputs.shape[:1]:
        found = (
            f"outputs of shape {tuple(outputs.shape)}"
            if isinstance(outputs, Tensor)
            else f"outputs of type {type(outputs).__name__}"
        )
        raise InputError("model", found, f"one row a record, {len(inputs)} rows")
    loss.check_labels(outputs, labels)
    return outputs


def _check_apart(model: nn.Module) -> None:
    for name, module in model.named_modules():
        batch_norm = isinstance(module, nn.modules.batchnorm._BatchNorm)
        if batch_norm and (module.training or module.running_mean is None):
            raise InputError(
                "model",
                f"layer {name!r}, a BatchNorm that mixes the records of a batch",
                "layers that treat each record by itself, for a defence on single records",
                "leave train=False, or replace it, as by nn.GroupNorm",
            )
