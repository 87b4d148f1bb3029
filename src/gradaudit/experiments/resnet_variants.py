"""ResNet-18 with and without a skip connection, as initialised and trained, and images for it."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from gradaudit.data import load_source
from gradaudit.models import resnet18
from gradaudit.preprocessing import Preprocessing

IMAGES, DRAW_SEED = 2000, 2010
# Smaller images end as 1 x 1, and there torch 2.13's oneDNN corrupts memory in the backward pass of
# float32; float64 does not use it.
LEAST_SIDE = 16
STEPS, BATCH, RATE, MOMENTUM, DECAY = 400, 64, 0.02, 0.9, 5e-4


@dataclass(frozen=True)
class Size:
    """Of images and networks.

    Attributes:
        side: Of an image, in pixels.
        width: Channels of the first blocks.
        iterations: Of the attack.
    """

    side: int
    width: int
    iterations: int


def network(
    shape: Sequence[int], width: int, without_skip: int, *, classes: int = 10, seed: int = 0
) -> nn.Module:
    """The variant without a block's skip connection, with the whole network's weights.

    Args:
        shape: Channels, height and width of an image.
        width: Channels of the first blocks.
        without_skip: Number of the block; 0 for all skips.
        classes: Outputs.
        seed: Of the weights.

    Example:
        >>> whole, variant = (network((3, 16, 16), 4, block) for block in (0, 3))
        >>> torch.equal(whole.fc.weight, variant.fc.weight), variant.block3.shortcut is None
        (True, True)
    """

    def make(without: tuple[int, ...]) -> nn.Module:
        setting: dict[str, Any] = {"init": "kaiming", "normalisation": "none"}
        setting |= {"num_classes": classes, "seed": seed, "without_skip": without}
        return resnet18(shape, width=width, **setting).eval()

    whole, variant = make(()).state_dict(), make((without_skip,) if without_skip else ())
    variant.load_state_dict({name: whole[name] for name in variant.state_dict()})
    return variant


@lru_cache(maxsize=2)
def images(
    source: str, side: int
) -> tuple[Float[Tensor, "n c h w"], Int[Tensor, " n"], Preprocessing]:
    """Images of the side that is wanted, or of the next above it that averaging gives.

    Args:
        source: As `gradaudit.data.load_source` reads it.
        side: In pixels.

    Returns:
        At most 2,000 images, their labels, and how they became inputs.
    """
    data = load_source(source)
    total = min(IMAGES, len(data)) if isinstance(data, Sized) else IMAGES
    batch = data.batch(total, seed=DRAW_SEED, dtype=torch.float32)
    small = functional.avg_pool2d(batch.inputs, max(1, batch.inputs.shape[-1] // side))
    channels, height, width = small.shape[1:]
    shape = (channels, height, width)
    return small, batch.labels, replace(batch.preprocessing, image_shape=shape)


def classes_of(labels: Int[Tensor, " n"]) -> int:
    """Outputs that a network for these labels needs, at least two."""
    return max(2, int(labels.max()) + 1)


# The network with all skips and without each of eight: a run comes back to them for every image.
@lru_cache(maxsize=9)
def trained_network(
    source: str, size: Size, without_skip: int, number: int
) -> tuple[nn.Module, float]:
    """The variant after training, and its accuracy on images that it was not trained on.

    Args:
        source: Of the images.
        size: Of images and network.
        without_skip: Number of the block; 0 for all skips.
        number: Of the first images, that are trained on.
    """
    inputs, labels, _ = images(source, size.side)
    classes = classes_of(labels)
    model = network(inputs.shape[1:], size.width, without_skip, classes=classes).train()
    if min(inputs.shape[2:]) < LEAST_SIDE:
        model, inputs = model.double(), inputs.double()
    optimiser = torch.optim.SGD(model.parameters(), RATE, momentum=MOMENTUM, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        chosen = torch.randint(number, (BATCH,), generator=generator)
        optimiser.zero_grad()
        functional.cross_entropy(model(inputs[chosen]), labels[chosen]).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    model = model.eval().float()
    inputs = inputs.float()
    with torch.no_grad():
        right = model(inputs[number:]).argmax(1) == labels[number:]
    return model, float(right.double().mean())
