"""Whether records of an image shape can be what a network takes, by its weights."""

from __future__ import annotations

import math

from gradaudit.errors import InputError
from gradaudit.models.infer import infer_mlp
from gradaudit.update import Update


def check_input_shape(update: Update, shape: tuple[int, int, int] | None) -> None:
    """Check that records of an image shape are what a layer takes: the first, if that is known.

    Behind a convolution or the like, layers take features, whose number says nothing.

    Args:
        update: What was observed.
        shape: Channels, height, width; None where nothing is said.

    Raises:
        InputError: They are not, as far as the weights show it.
    """
    if shape is None:
        return
    first = first_layer(update)
    if first is not None:
        takers = [first]
    elif any(weight.ndim > 2 for weight in update.weights.values()):
        return
    else:
        takers = [(layer.name, layer.shape[1]) for layer in update.linear_layers()]
    if not takers or math.prod(shape) in {length for _, length in takers}:
        return
    raise InputError(
        "--input-shape",
        f"{','.join(map(str, shape))} ({math.prod(shape):,} values)",
        " or ".join(
            f"{length:,} values, which layer {name!r} takes" for name, length in takers[:3]
        ),
        _squares(takers[0][1]) if len(takers) == 1 else "leave it out if they are no images",
    )


def first_layer(update: Update) -> tuple[str, int] | None:
    """Name and inputs of the layer that sees the records; None where the weights leave it open.

    Args:
        update: What was observed.
    """
    guess = infer_mlp(update.weights)
    if guess.model is None:
        return None
    name = guess.layers[0]
    return name, guess.model.get_parameter(f"{name}.weight".lstrip(".")).shape[1]


def _squares(length: int) -> str:
    """The shapes of square images, in colour or grey, that have so many values."""
    fitting = [
        f"{channels},{side},{side}"
        for channels in (3, 1)
        if channels * (side := math.isqrt(length // channels)) ** 2 == length
    ]
    return f"such as {' or '.join(fitting)}" if fitting else "leave it out if they are no images"
