"""The attacked layer and all that follow it, when they are fully connected with ReLUs between."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gradaudit.models.losses import Loss
from gradaudit.update import LinearLayer


@dataclass(frozen=True, eq=False)
class Pass:
    """Records on their way through the layers.

    Attributes:
        inputs: Of every layer, the records first.
        sides: Every layer's pre-activations; the last one's are the network's outputs.
    """

    inputs: tuple[Tensor, ...]
    sides: tuple[Tensor, ...]

    @property
    def outputs(self) -> Float[Tensor, "b c"]:
        """Of the network."""
        return self.sides[-1]


@dataclass(frozen=True, eq=False)
class FeedForward:
    """Layers in float64 with their observed gradients; the attacked one is the first.

    Attributes:
        layers: In the order in which records pass them.
        loss: That the client minimises.
    """

    layers: tuple[LinearLayer, ...]
    loss: Loss

    @classmethod
    def of(
        cls, layers: Sequence[LinearLayer], loss: Loss, *, device: torch.device
    ) -> FeedForward | None:
        """Put layers in a row; None where one's outputs are not the next one's inputs.

        Args:
            layers: The attacked one first.
            loss: Takes the last one's outputs.
            device: Where to compute.
        """
        for before, after in itertools.pairwise(layers):
            if before.shape[0] != after.shape[1]:
                return None

        def wide(tensor: Tensor) -> Tensor:
            return tensor.to(device, torch.float64)

        return cls(
            tuple(
                replace(
                    layer,
                    weight=wide(layer.weight),
                    bias=None if layer.bias is None else wide(layer.bias),
                    weight_gradient=wide(layer.weight_gradient),
                    bias_gradient=(
                        None if layer.bias_gradient is None else wide(layer.bias_gradient)
                    ),
                )
                for layer in layers
            ),
            loss,
        )

    def run(self, records: Float[Tensor, "b n"]) -> Pass:
        """Send records through all layers.

        Args:
            records: Inputs of the first one.
        """
        inputs, sides = [records], []
        for layer in self.layers:
            side = inputs[-1] @ layer.weight.T
            sides.append(side if layer.bias is None else side + layer.bias)
            inputs.append(torch.relu(sides[-1]))
        return Pass(tuple(inputs[:-1]), tuple(sides))

    def slopes(
        self, outputs: Float[Tensor, "b c"], labels: Shaped[Tensor, " b"]
    ) -> Float[Tensor, "b c"]:
        """Gradient of each record's own loss at the network's outputs.

        Args:
            outputs: Of the network.
            labels: One a record.
        """
        with torch.inference_mode(False), torch.enable_grad():
            free = outputs.detach().clone().requires_grad_()
            total = self.loss(free, labels.clone(), reduction="sum")
            slopes: Tensor = torch.autograd.grad(total, free)[0]
        return slopes
