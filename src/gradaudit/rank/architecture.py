"""A network as rank analysis sees it: sizes alone, which a variant can change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from gradaudit.errors import InputError
from gradaudit.theory import Convolution

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """A convolution or a fully connected layer.

    Attributes:
        name: Module path.
        sizes: Of the layer; a fully connected one is a convolution of a single pixel.
        dense: Whether it is fully connected.
        activation: Kind of the activation behind it, "" for none.
        pooled: Height and width behind an average pooling that precedes the activation, or None.
    """

    name: str
    sizes: Convolution
    dense: bool = False
    activation: str = ""
    pooled: tuple[int, int] | None = None

    @property
    def output_shape(self) -> Shape:
        """What the activation is given."""
        if self.dense:
            return (self.sizes.out_channels,)
        return (self.sizes.out_channels, *(self.pooled or self.sizes.output_size))

    def refit(self, shape: Shape) -> Layer:
        """The same layer on an input of another shape."""
        if self.dense:
            return replace(self, sizes=Convolution.dense(math.prod(shape), self.sizes.out_channels))
        if len(shape) != 3:
            raise InputError(self.name, f"an input of shape {shape}", "channels, height, width")
        sizes = replace(self.sizes, in_channels=shape[0], input_size=(shape[1], shape[2]))
        pooled = None
        if self.pooled is not None:
            pooled = scaled(self.pooled, self.sizes.output_size, sizes.output_size)
        return replace(self, sizes=sizes, pooled=pooled)


@dataclass(frozen=True)
class Lossy:
    """A step without a weight that may merge entries, such as pooling behind an activation.

    Attributes:
        name: Module path, or the name of the call in the traced forward.
        reason: Why its input cannot be computed from its output, as a clause.
        input_shape: Without the batch.
        output_shape: The same.
    """

    name: str
    reason: str
    input_shape: Shape
    output_shape: Shape

    def refit(self, shape: Shape) -> Lossy:
        """The same step on an input of another shape, made smaller in the same proportion."""
        if len(shape) == len(self.output_shape) == 3:
            before = self.input_shape[1], self.input_shape[2]
            after = self.output_shape[1], self.output_shape[2]
            output: Shape = (shape[0], *scaled(after, before, (shape[1], shape[2])))
        elif self.input_shape == self.output_shape:
            output = shape
        elif shape == self.input_shape:
            output = self.output_shape
        else:
            raise InputError(self.name, f"an input of shape {shape}", str(self.input_shape))
        return replace(self, input_shape=shape, output_shape=output)


@dataclass(frozen=True)
class Block:
    """Two ways whose outputs are added.

    Attributes:
        name: What the names of its layers begin with, or the addition's.
        body: The longer way.
        shortcut: The other; empty for the identity.
    """

    name: str
    body: tuple[Part, ...]
    shortcut: tuple[Part, ...] = ()

    @property
    def output_shape(self) -> Shape:
        """Of the sum."""
        return self.body[-1].output_shape

    def refit(self, shape: Shape) -> Block:
        """The same block on an input of another shape."""
        body, shortcut = refit(self.body, shape), refit(self.shortcut, shape)
        there, here = body[-1].output_shape, shortcut[-1].output_shape if shortcut else shape
        if there != here:
            raise InputError(self.name, f"{there} and {here} to add", "equal shapes")
        return replace(self, body=body, shortcut=shortcut)


Part: TypeAlias = Layer | Lossy | Block


@dataclass(frozen=True)
class Architecture:
    """A network from its input to its output.

    Attributes:
        input_shape: Of a record.
        parts: In the order of the forward pass.
    """

    input_shape: Shape
    parts: tuple[Part, ...]

    def layers(self) -> Iterator[Layer]:
        """All layers, those of blocks too, the body before the shortcut."""
        yield from _layers(self.parts)

    def blocks(self) -> tuple[Block, ...]:
        """The blocks with a skip connection."""
        return tuple(part for part in self.parts if isinstance(part, Block))


def _layers(parts: Sequence[Part]) -> Iterator[Layer]:
    for part in parts:
        if isinstance(part, Layer):
            yield part
        elif isinstance(part, Block):
            yield from _layers((*part.body, *part.shortcut))


def refit(parts: Sequence[Part], shape: Shape) -> tuple[Part, ...]:
    """Lay parts one after another from an input shape on.

    Raises:
        InputError: They do not fit.
    """
    fitted: list[Part] = []
    for part in parts:
        fitted.append(part.refit(shape))
        shape = fitted[-1].output_shape
    return tuple(fitted)


def scaled(
    after: tuple[int, int], before: tuple[int, int], size: tuple[int, int]
) -> tuple[int, int]:
    """A size made smaller as another was; what became one pixel stays one.

    Example:
        >>> scaled((4, 1), (8, 8), (5, 5))
        (2, 1)
    """
    height, width = (
        1 if a == 1 else max(1, n * a // b) for a, b, n in zip(after, before, size, strict=True)
    )
    return height, width
