"""A client of FedSGD: it sends the gradient of one batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gradaudit.errors import InputError
from gradaudit.models.losses import Loss, get_loss
from gradaudit.options import floating_dtype
from gradaudit.preprocessing import Preprocessing
from gradaudit.truth import Truth
from gradaudit.update import GradientStep, Update


class FedSGD:
    """A client that computes one gradient of one batch and sends it.

    The gradient is that of the loss, reduced over the batch, with respect to every parameter that
    requires one. It is computed on a copy of the model at the model's own floating-point type: the
    caller's model keeps its mode, has no gradients left on it, and its buffers do not move. Unless
    `train` is set, the copy is in evaluation mode: no dropout, and BatchNorm uses running
    statistics.

    Args:
        model: The global model that the client was given.
        loss: A name or function that `gradaudit.models.get_loss` takes.
        reduction: ``"mean"`` or ``"sum"`` over the batch.
        dtype: Compute at this floating-point type instead of the model's.
        observe: ``"gradient"``: the gradient itself is sent. ``"delta"``: one step of gradient
            descent is made and the difference of the rounded weights, after minus before, is sent;
            it carries the rounding error of the weights, as a real difference does.
        learning_rate: Of that step; needed for ``"delta"`` and for nothing else.
        gradient_dtype: What is sent is rounded to this type: float64, float32, float16, bfloat16.
        train: Compute in training mode.
        seed: Of what training mode draws at random, such as dropout.

    Raises:
        InputError: An argument cannot be used.

    Example:
        >>> from gradaudit.models import mlp
        >>> client = FedSGD(mlp(4, [3], 2, seed=1))
        >>> update, truth = client.update(torch.ones(5, 4), torch.tensor([0, 1, 1, 0, 1]))
        >>> update.gradient["fc1.weight"].shape, truth.batch_size
        (torch.Size([3, 4]), 5)
    """

    def __init__(
        self,
        model: nn.Module,
        loss: str | Loss | Callable[[Tensor, Tensor], Tensor] = "cross_entropy",
        *,
        reduction: str = "mean",
        dtype: torch.dtype | str | None = None,
        observe: str = "gradient",
        learning_rate: float | None = None,
        gradient_dtype: torch.dtype | str | None = None,
        train: bool = False,
        seed: int = 0,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InputError("model", type(model).__name__, "a torch.nn.Module")
        if not any(p.requires_grad for p in model.parameters()):
            raise InputError("model", "no parameter that requires a gradient", "a trainable model")
        if reduction not in ("mean", "sum"):
            raise InputError("reduction", repr(reduction), "'mean' or 'sum'")
        if observe not in ("gradient", "delta"):
            raise InputError("observe", repr(observe), "'gradient' or 'delta'")
        if (observe == "delta") != (learning_rate is not None):
            raise InputError(
                "learning_rate",
                f"{learning_rate} with observe={observe!r}",
                "a learning rate with observe='delta', and none with 'gradient'",
            )
        self.model = model
        self.loss = get_loss(loss)
        self.reduction = reduction
        self.dtype = None if dtype is None else floating_dtype("dtype", dtype)
        self.observe = observe
        self.step = GradientStep(learning_rate)
        self.gradient_dtype = (
            None if gradient_dtype is None else floating_dtype("gradient_dtype", gradient_dtype)
        )
        self.train = train
        self.seed = seed

    def update(
        self,
        inputs: Float[Tensor, "b ..."],
        labels: Shaped[Tensor, "b ..."] | Sequence[int],
        preprocessing: Preprocessing | None = None,
    ) -> tuple[Update, Truth]:
        """Compute the update of one batch.

        Args:
            inputs: Network inputs, one record a row.
            labels: One label a record.
            preprocessing: How records became inputs; passed on to the update and the truth.

        Returns:
            What the client sends, and what it used.

        Raises:
            InputError: The batch does not fit the model or the loss, or what is sent overflows.
        """
        model = copy.deepcopy(self.model).train(self.train)
        if self.dtype is not None:
            model = model.to(self.dtype)
        model.zero_grad(set_to_none=True)
        parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        first = next(iter(parameters.values()))
        inputs = _tensor("inputs", inputs)
        labels = _tensor("labels", labels).to(first.device)
        _check_batch(inputs, preprocessing)
        inputs = inputs.detach().to(first.device, first.dtype)
        # Buffers move in training mode; the server knows them as they were before.
        weights = {n: t.detach().clone() for n, t in model.state_dict().items()}
        gradient = self._gradient(model, parameters, inputs, labels)
        if self.observe == "delta":
            rate = self.step.learning_rate
            assert rate is not None  # noqa: S101 - __init__ checked it
            sent = {n: (weights[n] - rate * g) - weights[n] for n, g in gradient.items()}
        else:
            sent = gradient
        if self.gradient_dtype is not None:
            sent = {n: t.to(self.gradient_dtype) for n, t in sent.items()}
        update = Update(
            weights,
            gradient=sent if self.observe == "gradient" else None,
            delta=sent if self.observe == "delta" else None,
            step=self.step,
            preprocessing=preprocessing,
        )
        return update, Truth(inputs, labels, preprocessing)

    def _gradient(
        self, model: nn.Module, parameters: dict[str, nn.Parameter], inputs: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        with torch.enable_grad(), torch.random.fork_rng(devices=[], enabled=self.train):
            if self.train:
                torch.manual_seed(self.seed)
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
            self.loss.check_labels(outputs, labels)
            value = self.loss(outputs, labels, self.reduction)
            try:
                gradients = torch.autograd.grad(
                    value, list(parameters.values()), materialize_grads=True
                )
            except RuntimeError as error:
                raise InputError(
                    "loss", f"a value without a gradient ({error})", "a differentiable loss"
                ) from error
        return dict(zip(parameters, (g.detach() for g in gradients), strict=True))


def _tensor(argument: str, value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise InputError(argument, type(value).__name__, "a tensor") from error


def _check_batch(inputs: Tensor, preprocessing: Preprocessing | None) -> None:
    if inputs.ndim < 2 or 0 in inputs.shape:
        raise InputError("inputs", f"shape {tuple(inputs.shape)}", "one record a row")
    if not inputs.is_floating_point():
        raise InputError("inputs", str(inputs.dtype), "floating-point numbers")
    if not bool(torch.isfinite(inputs).all()):
        raise InputError("inputs", "values that are nan or infinite", "finite numbers")
    features = None if preprocessing is None else preprocessing.features
    if features is not None and features != inputs[0].numel():
        raise InputError(
            "preprocessing",
            f"{features} features",
            f"{inputs[0].numel()}, as the inputs have",
            "give the preprocessing of these inputs",
        )
