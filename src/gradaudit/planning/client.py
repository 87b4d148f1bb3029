"""The client that is planned: its network by sizes, its records, its training, its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from gradaudit.chain import chain_of
from gradaudit.chain.activations import KINDS
from gradaudit.errors import InputError
from gradaudit.rank.architecture import Architecture, Layer, Part
from gradaudit.rank.describe import architecture_of
from gradaudit.theory import Convolution
from gradaudit.update import GradientStep, LocalTraining


@dataclass(frozen=True)
class PlannedClient:
    """A client as far as sizes describe it.

    Attributes:
        architecture: Of its network.
        bias: Whether the first fully connected layer has a bias that is trained.
        batch_size: Distinct records of one client, in all its local steps together.
        clients: How many clients' updates a secure aggregation sums up.
        training: What one update is: a gradient, or local training.
        noise: Standard deviation of Gaussian noise in each entry of the mean gradient.
        centred: Whether inputs have a mean near zero, as normalised images have.
    """

    architecture: Architecture
    bias: bool = True
    batch_size: int = 1
    clients: int = 1
    training: GradientStep | LocalTraining = field(default_factory=GradientStep)
    noise: float = 0.0
    centred: bool = True

    def __post_init__(self) -> None:
        for name in ("batch_size", "clients"):
            if getattr(self, name) < 1:
                raise InputError(name, str(getattr(self, name)), "a whole number of at least 1")
        if not 0 <= self.noise < math.inf:
            raise InputError("noise", repr(self.noise), "a standard deviation from 0")
        if self.layer is None:
            raise InputError("model", "no fully connected layer", "a network that has one")

    @property
    def records(self) -> int:
        """Records in what the server sees: those of all clients that are summed."""
        return self.batch_size * self.clients

    @property
    def dense(self) -> tuple[Layer, ...]:
        """The fully connected layers, from the input on."""
        return tuple(layer for layer in self.architecture.layers() if layer.dense)

    @property
    def layer(self) -> Layer:
        """The first fully connected layer: the one whose inputs are recovered."""
        return next(iter(self.dense), None)  # type: ignore[return-value] # never None once made

    @property
    def width(self) -> int:
        """m, neurons of that layer."""
        return self.layer.sizes.out_channels

    @property
    def inputs(self) -> int:
        """n, its inputs."""
        return self.layer.sizes.in_channels

    @property
    def is_output(self) -> bool:
        """Whether that layer is the last one, so that the loss follows it."""
        return self.layer is list(self.architecture.layers())[-1]

    @property
    def is_first(self) -> bool:
        """Whether its inputs are the records themselves, not features of them."""
        return self.architecture.parts[0] is self.layer

    @property
    def is_harder(self) -> bool:
        """Whether it is of the kinds that took the half-space search longer: see `costs`."""
        return not self.centred or len(self.dense) == 2

    @property
    def weights(self) -> int:
        """Entries of all fully connected weight matrices."""
        return sum(layer.sizes.in_channels * layer.sizes.out_channels for layer in self.dense)

    @property
    def steps(self) -> int:
        """Local steps; 1 for a gradient."""
        if isinstance(self.training, GradientStep):
            return 1
        return self.training.steps(self.batch_size) or 1

    def with_width(self, width: int) -> PlannedClient:
        """The same client with another width of that layer and of those behind it as wide."""
        before = self.width
        parts: list[Part] = []
        inputs = None
        for part in self.architecture.parts:
            if isinstance(part, Layer) and part.dense:
                outputs = part.sizes.out_channels
                last = part is self.architecture.parts[-1]
                outputs = width if outputs == before and not last else outputs
                sizes = Convolution.dense(inputs or part.sizes.in_channels, outputs)
                inputs = outputs
                parts.append(replace(part, sizes=sizes))
            else:
                parts.append(part)
        return replace(self, architecture=replace(self.architecture, parts=tuple(parts)))

    def with_activation(self, kind: str) -> PlannedClient:
        """The same client with another activation wherever there is one."""
        parts = tuple(
            replace(part, activation=kind) if isinstance(part, Layer) and part.activation else part
            for part in self.architecture.parts
        )
        return replace(self, architecture=replace(self.architecture, parts=parts))


def sizes_of_widths(widths: Sequence[int], activation: str = "relu") -> Architecture:
    """Fully connected layers, each but the last with an activation behind it.

    Args:
        widths: Inputs, neurons of every layer, outputs.
        activation: One of `gradaudit.chain`'s kinds.

    Raises:
        InputError: Fewer than two numbers, one below 1, or an unknown activation.

    Example:
        >>> [layer.name for layer in sizes_of_widths([8, 4, 2]).layers()]
        ['fc1', 'fc2']
    """
    if len(widths) < 2 or min(widths) < 1:
        raise InputError("widths", str(list(widths)), "two whole numbers or more, from 1 on")
    if activation not in KINDS:
        raise InputError("activation", repr(activation), "one of " + ", ".join(KINDS))
    last = len(widths) - 1
    layers = tuple(
        Layer(
            f"fc{i}",
            Convolution.dense(widths[i - 1], widths[i]),
            dense=True,
            activation="" if i == last else activation,
        )
        for i in range(1, last + 1)
    )
    return Architecture((widths[0],), layers)


def sizes_of_model(model: nn.Module, input_shape: Sequence[int]) -> tuple[Architecture, bool]:
    """A network's sizes, and whether its first fully connected layer trains a bias.

    Raises:
        InputError: The network cannot be traced, or refuses the shape.

    Example:
        >>> from gradaudit.models import mlp
        >>> sizes_of_model(mlp(8, [4], 2), (8,))[1]
        True
    """
    dense = [module for module in model.modules() if isinstance(module, nn.Linear)]
    bias = bool(dense) and isinstance(dense[0].bias, torch.Tensor) and dense[0].bias.requires_grad
    return architecture_of(chain_of(model, input_shape)), bias
