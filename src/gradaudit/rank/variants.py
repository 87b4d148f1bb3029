"""Networks that differ in one decision of the architecture."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gradaudit.errors import InputError
from gradaudit.rank.architecture import Architecture, Block, Layer, Part, refit
from gradaudit.theory import Convolution, layer_rank

# What `usual_variants` does to a stride.
STRIDE_FACTOR = 2


def change(
    architecture: Architecture,
    *,
    channels: Mapping[str, int] | None = None,
    strides: Mapping[str, int] | None = None,
    without_skip: Collection[str] = (),
) -> Architecture:
    """A network with changes; the layers behind them are made to fit.

    Args:
        architecture: The network.
        channels: New numbers of output channels, or neurons, by layer.
        strides: New strides, the same along both axes, by convolution.
        without_skip: Names of the blocks that lose their skip connection.

    Raises:
        InputError: A name is unknown, or the parts no longer fit.

    Example:
        >>> from gradaudit.chain import chain_of
        >>> from gradaudit.models import cnn6
        >>> from gradaudit.rank.describe import architecture_of
        >>> network = architecture_of(chain_of(cnn6(), (3, 32, 32)))
        >>> change(network, channels={"conv2": 20}).parts[2].sizes.in_channels
        20
    """
    widths, steps = dict(channels or {}), dict(strides or {})
    layers = {layer.name: layer for layer in architecture.layers()}
    blocks = [block.name for block in architecture.blocks()]
    for argument, names, known in (
        ("channels", widths, list(layers)),
        ("strides", steps, [name for name, layer in layers.items() if not layer.dense]),
        ("without_skip", without_skip, blocks),
    ):
        for name in names:
            if name not in known:
                raise InputError(argument, repr(name), "one of " + (", ".join(known) or "none"))
    changed = tuple(_changed(architecture.parts, widths, steps, without_skip))
    return replace(architecture, parts=refit(changed, architecture.input_shape))


def _changed(
    parts: Sequence[Part],
    channels: Mapping[str, int],
    strides: Mapping[str, int],
    without_skip: Collection[str],
) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, Layer):
            yield _layer(part, channels.get(part.name), strides.get(part.name))
        elif isinstance(part, Block):
            body = tuple(_changed(part.body, channels, strides, without_skip))
            if part.name in without_skip:
                yield from body
            else:
                shortcut = tuple(_changed(part.shortcut, channels, strides, without_skip))
                yield replace(part, body=body, shortcut=shortcut)
        else:
            yield part


def _layer(layer: Layer, channels: int | None, stride: int | None) -> Layer:
    sizes = layer.sizes
    if channels is not None:
        sizes = replace(sizes, out_channels=channels)
    if stride is not None:
        sizes = replace(sizes, stride=(stride, stride))
    pooled = layer.pooled
    if pooled is not None and sizes.output_size != layer.sizes.output_size:
        raise InputError(layer.name, "average pooling behind it", "a layer without, for a stride")
    return replace(layer, sizes=sizes)


def usual_changes(architecture: Architecture) -> Iterator[tuple[str, Architecture]]:
    """Changes that an architect can make, with what to call them; one at a time.

    - The largest smaller number of channels at which a layer's equations leave something open.
    - Twice the stride of a convolution.
    - No skip connection in a block.

    What no longer fits together, such as a stride inside a block with an identity, is left out.
    """
    layers = [layer for layer in architecture.layers() if not layer.dense]
    for layer in layers:
        fewer = _channels_with_deficit(layer.sizes)
        if fewer is not None:
            title = f"{layer.name} with {fewer} channels instead of {layer.sizes.out_channels}"
            yield from _if_it_fits(architecture, title, channels={layer.name: fewer})
    for layer in layers:
        stride = STRIDE_FACTOR * max(layer.sizes.stride)
        title = f"{layer.name} with stride {stride} instead of {max(layer.sizes.stride)}"
        yield from _if_it_fits(architecture, title, strides={layer.name: stride})
    for block in architecture.blocks():
        title = f"{block.name} without its skip connection"
        yield from _if_it_fits(architecture, title, without_skip=(block.name,))


def _if_it_fits(
    architecture: Architecture,
    title: str,
    *,
    channels: Mapping[str, int] | None = None,
    strides: Mapping[str, int] | None = None,
    without_skip: Collection[str] = (),
) -> Iterator[tuple[str, Architecture]]:
    try:
        yield (
            title,
            change(architecture, channels=channels, strides=strides, without_skip=without_skip),
        )
    except InputError:
        return


def _channels_with_deficit(sizes: Convolution) -> int | None:
    """The largest number of channels, below the layer's own, with a deficit; None for none."""
    low, high = 0, sizes.out_channels // sizes.groups
    while high - low > 1:
        middle = (low + high) // 2
        if layer_rank(replace(sizes, out_channels=middle * sizes.groups)).deficit:
            low = middle
        else:
            high = middle
    return low * sizes.groups or None
