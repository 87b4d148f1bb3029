"""One forward pass of a network, and the derivatives that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gradaudit.models.losses import Loss


@dataclass(frozen=True, eq=False)
class Forward:
    """The network's outputs for some records, with the graph that leads to them.

    The pass is the dearest step of a judgement; whatever is asked of the network about the same
    records is read off this one.

    Attributes:
        outputs: Of the network, one record a row.
        reached: The attacked layer's outputs in the same pass, Z.
        parameters: Those that the update changes.
        observed: Their observed change.
        loss: One number a record.
    """

    outputs: Float[Tensor, "b ..."]
    reached: Float[Tensor, "b m"]
    parameters: dict[str, Tensor]
    observed: dict[str, Tensor]
    loss: Loss

    @property
    def classes(self) -> int:
        """How many labels can be told apart: outputs, or two for a single logit."""
        count = self.outputs[:1].numel()
        return 2 if count == 1 else count

    def loss_slopes(self, labels: Shaped[Tensor, "k b"]) -> Float[Tensor, "k b ..."]:
        """Gradient of each record's own loss at the network's outputs, for several labellings."""
        with torch.inference_mode(False), torch.enable_grad():
            repeats = (len(labels),) + (1,) * (self.outputs.ndim - 1)
            outputs = self.outputs.detach().repeat(repeats).requires_grad_()
            total = self.loss(outputs, labels.flatten().clone(), reduction="sum")
            slopes = torch.autograd.grad(total, outputs)[0]
        return slopes.reshape(len(labels), *self.outputs.shape)

    def activation_gradients(self, labels: Shaped[Tensor, " b"]) -> Float[Tensor, "b m"]:
        """Gradient of each record's own loss at the layer's output."""
        slopes = self.loss_slopes(labels[None])[0]
        with torch.inference_mode(False), torch.enable_grad():
            gradient = torch.autograd.grad(
                self.outputs, self.reached, slopes, retain_graph=True, allow_unused=True
            )[0]
        return torch.zeros_like(self.reached) if gradient is None else gradient

    def output_changes(self, directions: Float[Tensor, "d m"]) -> Float[Tensor, "d b ..."]:
        """Derivatives of every record's outputs as the layer's output moves in some directions.

        Of the product J^T u, which is linear in u: twice backwards is once forwards.

        Raises:
            RuntimeError: Some part of the network cannot be differentiated twice.
        """
        with torch.inference_mode(False), torch.enable_grad():
            free = torch.zeros_like(self.outputs).requires_grad_()
            product: Tensor | None = torch.autograd.grad(
                self.outputs, self.reached, free, create_graph=True, allow_unused=True
            )[0]
            if product is None:
                return self.outputs.new_zeros(len(directions), *self.outputs.shape)
            changes = [
                torch.autograd.grad(
                    product, free, direction.clone().expand_as(product), retain_graph=True
                )[0]
                for direction in directions
            ]
        return torch.stack(changes)

    def full_gradient(
        self, labels: Shaped[Tensor, " b"], weights: Float[Tensor, " b"]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Gradient of the weighted sum of the records' losses beside the observed change.

        Returns:
            By parameter: (recomputed, observed), both float64.
        """
        with torch.inference_mode(False), torch.enable_grad():
            losses = self.loss(self.outputs, labels.clone(), reduction="none")
            total = (losses * weights.clone()).sum()
            gradients = torch.autograd.grad(
                total, list(self.parameters.values()), retain_graph=True, allow_unused=True
            )
        return {
            name: (
                torch.zeros_like(parameter) if gradient is None else gradient,
                self.observed[name].to(parameter),
            )
            for (name, parameter), gradient in zip(self.parameters.items(), gradients, strict=True)
        }
