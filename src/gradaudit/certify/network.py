"""Running the audited network on proposed records, exactly and without touching it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call

from gradaudit.errors import GradauditError, InputError
from gradaudit.models.loaded import load_model
from gradaudit.models.losses import Loss, get_loss
from gradaudit.update import Update, strip_wrappers


class NetworkMismatchError(GradauditError):
    """The network cannot be fed the records of this layer; the text says why."""


class Network:
    """A model with the update's weights, in float64 and evaluation mode.

    Args:
        model: Any module; it is copied, and its own weights are not used.
        update: Whose weights to put in.
        layer: Module path of the layer whose inputs the records are.
        loss: Name or function, as for `gradaudit.models.get_loss`.
        device: Where to compute.
        given: Whether it is known to be the client's, rather than guessed.

    Raises:
        InputError: The model's parameters are not the update's.
    """

    def __init__(
        self,
        model: nn.Module,
        update: Update,
        *,
        layer: str,
        loss: str | Loss | Callable[[Tensor, Tensor], Tensor] = "cross_entropy",
        device: torch.device | str = "cpu",
        given: bool = True,
    ) -> None:
        self.given = given
        loaded = load_model(model, update, device=device)
        self._model, self._tensors = loaded.module, loaded.tensors
        self._observed = loaded.observed
        self.loss = get_loss(loss)
        self.layer = layer
        named = self._model.named_modules(remove_duplicate=False)
        modules = {_short(name): module for name, module in named}
        if layer not in modules:
            raise InputError("model", f"no module {layer!r}", "the update's model")
        self._module = modules[layer]
        self._shape: tuple[int, ...] | None = None

    def prepare(self, records: Float[Tensor, "b n"], image_shape: tuple[int, ...] | None) -> None:
        """Find the input shape in which the records reach the layer unchanged.

        Args:
            records: Inputs of the layer.
            image_shape: Of the network's inputs, if known.

        Raises:
            NetworkMismatchError: In none; the layer is not the first, or the network transforms
                its input.
        """
        width = records.shape[1]
        shapes: list[tuple[int, ...]] = [(width,)]
        if image_shape is not None and math.prod(image_shape) == width:
            shapes.insert(0, tuple(image_shape))
        failure = "the records do not reach it unchanged from the network's input"
        for shape in shapes:
            try:
                outputs, reached, output = self._run(records, shape)
            except NetworkMismatchError:
                raise
            except Exception as error:  # the user's forward may raise anything on a wrong shape
                failure = f"the network does not take inputs of shape {shape} ({error})"
                continue
            if reached.reshape(len(reached), -1).equal(records) and output.ndim == 2:
                self._check_loss(outputs)
                self._shape = shape
                return
        raise NetworkMismatchError(" ".join(f"layer {self.layer!r}: {failure}".split())[:300])

    def _check_loss(self, outputs: Tensor) -> None:
        """Whether the loss takes these outputs with a class a record as the label."""
        labels = torch.zeros(len(outputs), dtype=torch.int64, device=outputs.device)
        try:
            self.loss.check_labels(outputs, labels)
            self.loss(outputs, labels, reduction="none")
        except Exception as error:  # a caller's loss may raise anything
            raise NetworkMismatchError(
                f"the loss {self.loss.name!r} does not take its outputs of shape "
                f"{tuple(outputs.shape)}; name the loss it is trained with"
            ) from error

    def classes(self, records: Float[Tensor, "b n"]) -> int:
        """How many labels can be told apart: outputs, or two for a single logit."""
        outputs = self._run(records[:1], self._input_shape())[0]
        count = outputs.reshape(1, -1).shape[1]
        return 2 if count == 1 else count

    def activation_gradients(
        self, records: Float[Tensor, "b n"], labels: Shaped[Tensor, b]
    ) -> Float[Tensor, "b m"]:
        """Gradient of each record's own loss at the layer's output."""
        with torch.inference_mode(False), torch.enable_grad():
            outputs, _, reached = self._run(
                records.clone(), self._input_shape(), differentiable=True
            )
            total = self.loss(outputs, labels.clone(), reduction="sum")
            gradient = torch.autograd.grad(total, reached, allow_unused=True)[0]
        return torch.zeros_like(reached) if gradient is None else gradient

    def full_gradient(
        self,
        records: Float[Tensor, "b n"],
        labels: Shaped[Tensor, b],
        weights: Float[Tensor, b],
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Gradient of the weighted sum of the records' losses beside the observed change.

        Returns:
            By parameter: (recomputed, observed), both float64.
        """
        names = [name for name in self._tensors if name in self._observed]
        with torch.inference_mode(False), torch.enable_grad():
            free = {name: self._tensors[name].detach().requires_grad_() for name in names}
            inputs = records.clone().reshape(len(records), *self._input_shape())
            outputs = functional_call(self._model, {**self._tensors, **free}, (inputs,))
            losses = self.loss(outputs, labels.clone(), reduction="none")
            total = (losses * weights.clone()).sum()
            gradients = torch.autograd.grad(total, list(free.values()), allow_unused=True)
        return {
            name: (
                torch.zeros_like(free[name]) if gradient is None else gradient,
                self._observed[name].to(free[name]),
            )
            for name, gradient in zip(names, gradients, strict=True)
        }

    def _input_shape(self) -> tuple[int, ...]:
        if self._shape is None:
            raise NetworkMismatchError("the network was not prepared for these records")
        return self._shape

    def _run(
        self, records: Tensor, shape: tuple[int, ...], *, differentiable: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Network outputs, and the layer's input and output."""
        seen: list[tuple[Tensor, Tensor]] = []

        def look(_: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
            seen.append((arguments[0], output))

        handle = self._module.register_forward_hook(look)
        try:
            inputs = records.reshape(len(records), *shape)
            if differentiable:
                inputs = inputs.detach().clone().requires_grad_()
            outputs = functional_call(self._model, self._tensors, (inputs,))
        finally:
            handle.remove()
        if len(seen) != 1:
            raise NetworkMismatchError(
                f"layer {self.layer!r} runs {len(seen)} times a forward pass, not once"
            )
        return outputs, *seen[0]


def _short(name: str) -> str:
    """A module's path without wrappers' prefixes."""
    stripped = strip_wrappers("model", {f"{name}.weight": torch.zeros(1)})
    return next(iter(stripped))[: -len(".weight")].lstrip(".")
