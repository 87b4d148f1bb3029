"""The observed gradient, and the network through which candidates are compared with it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from gradaudit.errors import GradauditError
from gradaudit.models.loaded import LoadedModel
from gradaudit.models.losses import Loss


class UnsuitedError(GradauditError):
    """Gradient matching does not apply; says why and what would change that."""

    def __init__(self, cause: str, remedy: str) -> None:
        self.cause, self.remedy = cause, remedy
        super().__init__(f"{cause} {remedy}")


@dataclass(frozen=True, eq=False)
class Target:
    """What gradient matching tries to reproduce.

    Attributes:
        gradient: The observed gradient of the batch's mean loss, by parameter.
        loss: The client's loss.
        input_shape: Of one network input.
        outputs: Of the network, a record.
        box: Least and largest value of an input, of a shape that broadcasts with one; None when
            the preprocessing does not tell.
        scale_known: Whether the gradient's size is that of a gradient, and not a learning rate
            times that.
        observed_eps: Relative rounding of the coarsest dtype the gradient was observed in.
        loaded: The network with the update's weights.
    """

    gradient: dict[str, Float[Tensor, " ..."]]
    loss: Loss
    input_shape: tuple[int, ...]
    outputs: int
    box: tuple[Float[Tensor, " ..."], Float[Tensor, " ..."]] | None
    scale_known: bool
    observed_eps: float
    loaded: LoadedModel

    @property
    def dtype(self) -> torch.dtype:
        """In which candidates are compared."""
        return next(iter(self.gradient.values())).dtype

    @property
    def device(self) -> torch.device:
        """Where."""
        return next(iter(self.gradient.values())).device

    def to(self, dtype: torch.dtype) -> Target:
        """The same in another dtype."""
        loaded = replace(
            self.loaded,
            module=copy.deepcopy(self.loaded.module).to(dtype),
            tensors={name: t.to(dtype) for name, t in self.loaded.tensors.items()},
        )
        return replace(
            self,
            gradient={name: g.to(dtype) for name, g in self.gradient.items()},
            box=None if self.box is None else (self.box[0].to(dtype), self.box[1].to(dtype)),
            loaded=loaded,
        )

    def predict(self, inputs: Float[Tensor, "b ..."]) -> Float[Tensor, "b c"]:
        """The network's outputs."""
        outputs: Tensor = functional_call(self.loaded.module, self.loaded.tensors, (inputs,))
        return outputs

    def watch(
        self, inputs: Float[Tensor, "b ..."], module: str
    ) -> tuple[Float[Tensor, "b ..."], Float[Tensor, "b c"]]:
        """What a module of the network is given, and the network's outputs."""
        seen: list[Tensor] = []
        watched = self.loaded.module.get_submodule(module)
        handle = watched.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        try:
            outputs = self.predict(inputs)
        finally:
            handle.remove()
        return seen[-1], outputs

    def last_linear(self) -> str | None:
        """Path of the fully connected layer whose output is the network's, if there is one."""
        probe = torch.zeros((1, *self.input_shape), dtype=self.dtype, device=self.device)
        given: dict[str, Tensor] = {}
        handles = [
            module.register_forward_hook(lambda _, __, out, name=name: given.update({name: out}))
            for name, module in self.loaded.module.named_modules()
            if isinstance(module, nn.Linear)
        ]
        try:
            outputs = self.predict(probe)
        finally:
            for handle in handles:
                handle.remove()
        return next((name for name, out in given.items() if out is outputs), None)

    def gradients(
        self, inputs: Float[Tensor, "r b ..."], labels: Shaped[Tensor, "r b ..."]
    ) -> dict[str, Float[Tensor, "r ..."]]:
        """Gradients of the mean loss of several candidate batches, differentiable in both.

        Args:
            inputs: r candidates for the batch.
            labels: Their classes (r, b), or soft labels as the loss takes them.
        """
        loaded = self.loaded
        parameters = {name: loaded.tensors[name] for name in self.gradient}

        def mean_loss(weights: dict[str, Tensor], batch: Tensor, classes: Tensor) -> Tensor:
            outputs = functional_call(loaded.module, {**loaded.tensors, **weights}, (batch,))
            return self.loss(outputs, classes)

        found: dict[str, Tensor] = vmap(grad(mean_loss), in_dims=(None, 0, 0))(
            parameters, inputs, labels
        )
        return found

    def residuals(
        self, inputs: Float[Tensor, "r b ..."], labels: Shaped[Tensor, "r b ..."]
    ) -> Float[Tensor, " r"]:
        """The gradient's part that each candidate leaves unexplained, relative to its norm."""
        with torch.no_grad():
            found = self.gradients(inputs, labels)
            squares = sum(
                (found[name] - observed).flatten(1).square().sum(1)
                for name, observed in self.gradient.items()
            )
            whole = sum(observed.square().sum() for observed in self.gradient.values())
            return torch.as_tensor(squares / whole).sqrt()
