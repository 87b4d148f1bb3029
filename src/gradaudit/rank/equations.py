r"""What a part of a network says about its input: linear equations, counted and exactly.

A block with a skip connection, :math:`z = W_d h + S x` with h the input of the body's last layer,
is one system in h and x: h has the gradient constraints of :math:`W_d`, x those of S, and z belongs
to both. Its independent equations are counted where they determine something:

- x, by z, once h is known: the weight constraints of the sum stand in the row of the block's first
  layer, with the shortcut's gradient;
- h, by its own gradient constraints alone, and by what of z is left when x is eliminated. Nothing
  is left when the shortcut is the identity; a shortcut with a weight of its own determines part of
  x by itself and leaves some.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gradaudit.rank.architecture import Block, Layer, Lossy, Part, Shape
from gradaudit.theory import Convolution, LayerRank, layer_rank

RELU = "ReLU: of outputs that are zero only the sign is known, so that the rank is lower"
POOLED = "average pooling before the activation: an upper bound"
SUMMED = "equations of the sum with the shortcut included"
BY_GRADIENT = "its output is known only in sum with the shortcut: by its gradient alone"


@dataclass(frozen=True)
class Equations:
    """One row of a rank analysis before anything is accumulated.

    Attributes:
        name: Of the layer.
        block: Of the block with a skip connection that it is in, or "".
        input_shape: Of the unknown.
        output_shape: Of the layer's output.
        rank: The counts.
        sizes: Of the layer, where its own equations are all that there are; else None.
        note: What the numbers do not say; "" for nothing.
        upper_bound: Whether the exact rank is one from above only.
    """

    name: str
    block: str
    input_shape: Shape
    output_shape: Shape
    rank: LayerRank
    sizes: Convolution | None = None
    note: str = ""
    upper_bound: bool = False

    @property
    def naive_index(self) -> int:
        """The paper's count; the equation that it takes off is there only beside a gradient."""
        return self.rank.naive_index + (not self.rank.gradient_constraints)


def equations_of(parts: Sequence[Part], shape: Shape, block: str = "") -> Iterator[Equations]:
    """The rows of parts that follow one another.

    Args:
        parts: In the order of the forward pass.
        shape: Of their input.
        block: The block that they are in.
    """
    for part in parts:
        if isinstance(part, Block):
            yield from _of_block(part, shape)
        elif isinstance(part, Lossy):
            yield _of_lossy(part, block)
        else:
            yield _of_layer(part, shape, block)
        shape = part.output_shape


def _of_layer(layer: Layer, shape: Shape, block: str) -> Equations:
    rank = layer_rank(layer.sizes) if layer.pooled is None else _pooled_rank(layer, layer.pooled)
    notes = [RELU] * (layer.activation == "relu") + [POOLED] * (layer.pooled is not None)
    return Equations(
        layer.name,
        block,
        shape,
        layer.output_shape,
        rank,
        sizes=None if layer.pooled else layer.sizes,
        note="; ".join(notes),
        upper_bound=bool(notes),
    )


def _pooled_rank(layer: Layer, pooled: tuple[int, int]) -> LayerRank:
    """Only means of the output are known, and the loss gradient is constant in every window."""
    sizes = layer.sizes
    plain = layer_rank(sizes)
    windows = pooled[0] * pooled[1]
    inputs, outputs = sizes.in_channels // sizes.groups, sizes.out_channels // sizes.groups
    r = min(outputs, windows)
    taps = sizes.kernel[0] * sizes.kernel[1]
    gradient = min(plain.gradient_rank, sizes.groups * inputs * r * taps)
    return replace(
        plain,
        weight_constraints=sizes.out_channels * windows,
        gradient_rank=gradient,
        independent=gradient + sizes.groups * outputs * (windows - r),
    )


def _of_lossy(part: Lossy, block: str) -> Equations:
    inputs, outputs = math.prod(part.input_shape), math.prod(part.output_shape)
    rank = LayerRank(inputs, 0, outputs, 0, outputs, inputs)
    return Equations(part.name, block, part.input_shape, part.output_shape, rank, note=part.reason)


def _of_block(block: Block, shape: Shape) -> Iterator[Equations]:
    rows = list(equations_of(block.body, shape, block.name))
    shortcut = block.shortcut[0] if len(block.shortcut) == 1 else None
    extra = shortcut.sizes if isinstance(shortcut, Layer) else None
    direct = not block.shortcut
    if len(rows) == 1:
        rows[0] = _one_layer(rows[0], extra)
    elif direct or extra is not None:
        summed = math.prod(block.output_shape)
        rows[-1] = _last_layer(rows[-1], extra)
        rows[0] = _first_layer(rows[0], extra, summed)
    else:
        # Several steps on the shortcut: its input obeys no linear equation with the sum.
        rows[-1] = _last_layer(rows[-1], None)
    yield from rows


def _one_layer(row: Equations, shortcut: Convolution | None) -> Equations:
    """The sum of a single layer and a shortcut is a layer of one output and two gradients."""
    if shortcut is None:
        return row
    other = layer_rank(shortcut)
    rank = replace(
        row.rank,
        gradient_constraints=row.rank.gradient_constraints + other.gradient_constraints,
        gradient_rank=min(row.rank.determined, row.rank.gradient_rank + other.gradient_rank),
        independent=row.rank.independent + other.gradient_rank,
    )
    return replace(row, rank=rank, sizes=None, note=_both(row.note, SUMMED), upper_bound=True)


def _first_layer(row: Equations, shortcut: Convolution | None, summed: int) -> Equations:
    """The block's input: its first layer's equations, and those of the sum."""
    rank = row.rank
    if shortcut is None:
        # The identity: every entry of the input is an output less something known.
        rank = replace(rank, independent=rank.independent + summed, determined=rank.unknowns)
        gradients = 0
    else:
        other = layer_rank(shortcut)
        gradients = other.gradient_constraints
        rank = replace(rank, independent=rank.independent + other.independent)
    rank = replace(
        rank,
        gradient_constraints=rank.gradient_constraints + gradients,
        weight_constraints=rank.weight_constraints + summed,
    )
    return replace(
        row,
        rank=rank,
        sizes=None,
        note=_both(row.note, SUMMED),
        upper_bound=row.upper_bound or shortcut is not None,
    )


def _last_layer(row: Equations, shortcut: Convolution | None) -> Equations:
    """The input of the body's last layer: its gradient, and what of the sum x leaves."""
    rank = row.rank
    left = 0
    if shortcut is not None:
        # Behind both gradients, the sum's equations that are no consequence of them.
        usable = rank.independent - rank.gradient_rank
        other = layer_rank(shortcut)
        open_in_h = rank.determined - rank.gradient_rank
        open_in_x = other.determined - other.gradient_rank
        left = min(usable, open_in_h + open_in_x) - min(usable, open_in_x)
    rank = replace(rank, weight_constraints=left, independent=rank.gradient_rank + left)
    return replace(row, rank=rank, sizes=None, note=_both(row.note, BY_GRADIENT))


def _both(one: str, other: str) -> str:
    return f"{one}; {other}" if one else other
