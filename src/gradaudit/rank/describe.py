"""From a chain of steps, with its weights, to the architecture alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from gradaudit.chain import Activation, Affine, AveragePool, Chain, Skip, Step, Unsolvable
from gradaudit.rank.architecture import Architecture, Block, Layer, Lossy, Part
from gradaudit.theory import Convolution


def architecture_of(chain: Chain) -> Architecture:
    """The sizes of a network's parts.

    Example:
        >>> from gradaudit.chain import chain_of
        >>> from gradaudit.models import lenet
        >>> [layer.name for layer in architecture_of(chain_of(lenet(), (1, 28, 28))).layers()]
        ['conv1', 'conv2', 'conv3', 'fc']
    """
    return Architecture(chain.input_shape, _parts(chain.steps))


def _parts(steps: Sequence[Step]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for step in steps:
        if isinstance(step, Affine):
            parts.append(_layer(step))
        elif isinstance(step, Unsolvable):
            parts.append(Lossy(step.name, step.reason, step.input_shape, step.output_shape))
        elif isinstance(step, Skip):
            parts.append(_block(step))
        elif isinstance(step, Activation) and parts:
            parts[-1] = _activated(parts[-1], step.kind)
    return tuple(parts)


def _layer(step: Affine) -> Layer:
    if not step.is_convolution:
        outputs, inputs = step.weight.shape
        return Layer(step.name, Convolution.dense(inputs, outputs), dense=True)
    sizes = Convolution(
        in_channels=step.input_shape[0],
        out_channels=step.weight.shape[0],
        input_size=(step.input_shape[1], step.input_shape[2]),
        kernel=step.kernel,
        stride=step.stride,
        padding=step.padding,
        dilation=step.dilation,
        groups=step.groups,
    )
    pools = any(isinstance(linear, AveragePool) for linear in step.after)
    pooled = (step.output_shape[1], step.output_shape[2]) if pools else None
    return Layer(step.name, sizes, pooled=pooled)


def _block(step: Skip) -> Part:
    body = _parts(step.body)
    layers = Architecture(step.input_shape, body).layers()
    if not body or body[-1].output_shape != step.output_shape or next(layers, None) is None:
        reason = "two ways without a layer of their own are added"
        return Lossy(step.name, reason, step.input_shape, step.output_shape)
    names = [layer.name for layer in Architecture(step.input_shape, body).layers()]
    return Block(_common_path(names) or step.name, body, _parts(step.shortcut))


def _common_path(names: Sequence[str]) -> str:
    """The module that contains all of these."""
    levels = zip(*(name.split(".")[:-1] for name in names), strict=False)
    return ".".join(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))


def _activated(part: Part, kind: str) -> Part:
    if isinstance(part, Layer):
        return replace(part, activation=kind)
    if isinstance(part, Block):
        return replace(part, body=(*part.body[:-1], _activated(part.body[-1], kind)))
    return part
