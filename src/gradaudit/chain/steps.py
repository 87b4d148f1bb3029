"""What a network is made of, as far as attacks and rank analysis tell its parts apart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from gradaudit.chain.activations import Activation
from gradaudit.chain.maps import AveragePool, ChannelScale


@dataclass(frozen=True, eq=False)
class Affine:
    """A fully connected layer or a convolution, and the fixed linear maps that follow it directly.

    The layer computes ``weight * x + bias``; `after` maps that to what the activation is given.
    They are kept apart, since the observed gradient is that of the layer's own weight.

    Attributes:
        name: Module path.
        weight: (m, n), or (O, C / groups, height, width) of the kernel.
        bias: (m,) or (O,), or None.
        input_shape: (n,) or (C, H, W).
        layer_shape: Of the layer's own output: (m,) or (O, H', W').
        stride: Of a convolution, by axis, as are padding and dilation.
        padding: Zeros on either side.
        dilation: Distance of a kernel's taps.
        groups: Of channels that are convolved apart.
        after: Average pooling and normalisation with fixed statistics.
        weight_name: Of the parameter in the state dict.
        bias_name: The same of the bias, or None.
    """

    name: str
    weight: Float[Tensor, " ..."]
    bias: Float[Tensor, " ..."] | None
    input_shape: tuple[int, ...]
    layer_shape: tuple[int, ...]
    weight_name: str
    bias_name: str | None = None
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    after: tuple[AveragePool | ChannelScale, ...] = ()

    @property
    def is_convolution(self) -> bool:
        """Whether it is a convolution, and no fully connected layer."""
        return self.weight.ndim == 4

    @property
    def kernel(self) -> tuple[int, int]:
        """Height and width of a convolution's kernel."""
        return self.weight.shape[2], self.weight.shape[3]

    @property
    def output_shape(self) -> tuple[int, ...]:
        """What the activation is given: the layer's output behind `after`."""
        return self.after[-1].output_shape if self.after else self.layer_shape

    @property
    def unknowns(self) -> int:
        """Entries of its input."""
        return math.prod(self.input_shape)

    def __call__(self, inputs: Float[Tensor, "b ..."]) -> Float[Tensor, "b ..."]:
        """Its output behind `after`, with all constants."""
        if self.is_convolution:
            outputs = functional.conv2d(
                inputs,
                self.weight,
                self.bias,
                self.stride,
                self.padding,
                self.dilation,
                self.groups,
            )
        else:
            outputs = functional.linear(inputs, self.weight, self.bias)
        for step in self.after:
            outputs = step(outputs)
        return outputs


@dataclass(frozen=True)
class Reshape:
    """The same entries in the same order, in another shape (without the batch)."""

    name: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]

    def __call__(self, inputs: Float[Tensor, "b ..."]) -> Float[Tensor, "b ..."]:
        """The reshaped entries."""
        return inputs.reshape(len(inputs), *self.output_shape)


@dataclass(frozen=True, eq=False)
class Skip:
    """Two ways from one value to the sum of both.

    Attributes:
        name: Of the addition.
        body: The longer way.
        shortcut: The other one; empty for the identity.
        input_shape: Of the value that both begin with.
        output_shape: Of the sum.
    """

    name: str
    body: tuple[Step, ...]
    shortcut: tuple[Step, ...]
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]

    def __call__(self, inputs: Float[Tensor, "b ..."]) -> Float[Tensor, "b ..."]:
        """The sum of both ways."""
        return _run(self.body, inputs) + _run(self.shortcut, inputs)


@dataclass(frozen=True)
class Unsolvable:
    """Something that no equation of ours describes.

    Attributes:
        name: Module path, or the name of the call in the traced forward.
        reason: Why, as a clause: "max pooling keeps one entry of several".
        remedy: What could be done about it.
        input_shape: Without the batch.
        output_shape: The same.
    """

    name: str
    reason: str
    remedy: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]


Step: TypeAlias = Affine | Activation | ChannelScale | Reshape | Skip | Unsolvable


@dataclass(frozen=True, eq=False)
class Chain:
    """A network as the steps from its input to its output.

    Attributes:
        steps: In the order of the forward pass.
        input_shape: Of a record, without the batch.
        output_shape: Of the network's output for it.

    Example:
        >>> import torch
        >>> from gradaudit.chain import chain_of
        >>> chain = chain_of(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()), (3,))
        >>> [type(step).__name__ for step in chain.steps]
        ['Affine', 'Activation']
    """

    steps: tuple[Step, ...]
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...] = field(default=())

    def __call__(self, inputs: Float[Tensor, "b ..."]) -> Float[Tensor, "b ..."]:
        """Run the steps; what is `Unsolvable` cannot be run."""
        return _run(self.steps, inputs)

    def walk(self) -> Iterator[Step]:
        """All steps, those inside skip blocks too, before the block that holds them."""
        yield from _walk(self.steps)

    @property
    def affine(self) -> tuple[Affine, ...]:
        """The layers with weights, those inside skip blocks too."""
        return tuple(step for step in self.walk() if isinstance(step, Affine))

    @property
    def unsolvable(self) -> tuple[Unsolvable, ...]:
        """What no equation describes."""
        return tuple(step for step in self.walk() if isinstance(step, Unsolvable))


def _walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Skip):
            yield from _walk(step.body)
            yield from _walk(step.shortcut)
        yield step


def _run(steps: tuple[Step, ...], values: Tensor) -> Tensor:
    for step in steps:
        if isinstance(step, Unsolvable):
            raise TypeError(f"step {step.name!r} cannot be run: {step.reason}")
        values = step(values)
    return values
