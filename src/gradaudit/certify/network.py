"""Running the audited network on proposed records, exactly and without touching it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call

from gradaudit.certify.forward import Forward
from gradaudit.errors import GradauditError, InputError
from gradaudit.models.loaded import load_model
from gradaudit.models.losses import Loss, get_loss
from gradaudit.update import Update, strip_wrappers

# Records that show which input shape the network takes; whether all of them reach the layer
# unchanged is seen when they are run.
PREPARED_RECORDS = 2

_CHANGED = "the records do not reach it unchanged from the network's input"


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
        width, some = records.shape[1], records[:PREPARED_RECORDS]
        shapes: list[tuple[int, ...]] = [(width,)]
        if image_shape is not None and math.prod(image_shape) == width:
            shapes.insert(0, tuple(image_shape))
        failure = _CHANGED
        for shape in shapes:
            try:
                outputs, reached, output = self._run(some, shape)
            except NetworkMismatchError:
                raise
            except Exception as error:  # the user's forward may raise anything on a wrong shape
                failure = f"the network does not take inputs of shape {shape} ({error})"
                continue
            if reached.reshape(len(reached), -1).equal(some) and output.ndim == 2:
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

    def forward(self, records: Float[Tensor, "b n"]) -> Forward:
        """Run the network on records, once for all derivatives.

        Args:
            records: Inputs of the layer.

        Raises:
            NetworkMismatchError: They do not reach the layer unchanged.
        """
        forward, reached = self._differentiable(records)
        if not reached.equal(records):
            raise NetworkMismatchError(f"layer {self.layer!r}: {_CHANGED}")
        return forward

    def activation_gradients(
        self, records: Float[Tensor, "b n"], labels: Shaped[Tensor, " b"]
    ) -> Float[Tensor, "b m"]:
        """Gradient of each record's own loss at the layer's output."""
        return self._differentiable(records)[0].activation_gradients(labels)

    def gradient_changes(
        self, record: Float[Tensor, " n"], label: Shaped[Tensor, ""], steps: Float[Tensor, "p n"]
    ) -> tuple[Float[Tensor, "p m"], Float[Tensor, "p m"]]:
        """A record's activation gradient, once a step, and its derivatives along the steps.

        Raises:
            RuntimeError: Some part of the network cannot be differentiated twice.
        """
        with torch.inference_mode(False), torch.enable_grad():
            inputs = record.clone().expand_as(steps).contiguous().requires_grad_()
            outputs, _, reached = self._run(inputs, self._input_shape())
            losses = self.loss(outputs, label.clone().expand(len(steps)), reduction="sum")
            gradient = torch.autograd.grad(
                losses, reached, create_graph=True, materialize_grads=True
            )[0]
            if not gradient.requires_grad:
                return gradient, torch.zeros_like(gradient)
            # Of the product J^T u, which is linear in u: twice backwards is once forwards.
            free = torch.zeros_like(gradient).requires_grad_()
            pulled = torch.autograd.grad(
                gradient, inputs, free, create_graph=True, materialize_grads=True
            )[0]
            if not pulled.requires_grad:
                return gradient.detach(), torch.zeros_like(gradient)
            changes = torch.autograd.grad(pulled, free, steps.clone(), materialize_grads=True)[0]
        return gradient.detach(), changes

    def _differentiable(self, records: Tensor) -> tuple[Forward, Tensor]:
        """A pass with its graph, and the layer's inputs in it."""
        with torch.inference_mode(False), torch.enable_grad():
            free = {
                name: self._tensors[name].detach().requires_grad_()
                for name in self._tensors
                if name in self._observed
            }
            outputs, entered, reached = self._run(records.clone(), self._input_shape(), free)
        forward = Forward(outputs, reached, free, self._observed, self.loss)
        return forward, entered.detach().reshape(len(records), -1)

    def _input_shape(self) -> tuple[int, ...]:
        if self._shape is None:
            raise NetworkMismatchError("the network was not prepared for these records")
        return self._shape

    def _run(
        self, records: Tensor, shape: tuple[int, ...], free: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Network outputs, and the layer's input and output; with parameters to differentiate by.

        The layer's own are among these, so that its output is differentiable.
        """
        seen: list[tuple[Tensor, Tensor]] = []

        def look(_: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
            seen.append((arguments[0], output))

        handle = self._module.register_forward_hook(look)
        try:
            inputs = records.reshape(len(records), *shape)
            outputs = functional_call(self._model, {**self._tensors, **(free or {})}, (inputs,))
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
