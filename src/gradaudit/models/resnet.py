"""ResNet-18 for small images, with variants in which blocks have lost their skip connection."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

import torch
from torch import Tensor, fx, nn

from gradaudit.errors import InputError
from gradaudit.models.parts import Parts, check_image

BLOCKS = 8
NORMALISATIONS = ("batch", "none")


class ResidualBlock(nn.Module):
    """Two convolutions and a shortcut: ``act(conv2(act(conv1(x))) + shortcut(x))``.

    Attributes:
        shortcut: The identity, or a 1 x 1 convolution where the shape changes; None without a
            skip connection.
    """

    def __init__(
        self, parts: Parts, inputs: int, outputs: int, stride: int, *, skip: bool, normalise: bool
    ) -> None:
        super().__init__()
        bias = False if normalise else None
        self.conv1 = parts.convolution(
            inputs, outputs, kernel=3, stride=stride, padding=1, bias=bias
        )
        self.bn1 = parts.batch_norm(outputs) if normalise else nn.Identity()
        self.act1 = parts.activation()
        self.conv2 = parts.convolution(outputs, outputs, kernel=3, padding=1, bias=bias)
        self.bn2 = parts.batch_norm(outputs) if normalise else nn.Identity()
        self.act2 = parts.activation()
        self.shortcut: nn.Module | None = None
        if skip and (stride != 1 or inputs != outputs):
            projection = parts.convolution(inputs, outputs, kernel=1, stride=stride, bias=bias)
            norm = [parts.batch_norm(outputs)] if normalise else []
            self.shortcut = nn.Sequential(projection, *norm)
        elif skip:
            self.shortcut = nn.Identity()

    def forward(self, x: Tensor | fx.Proxy) -> Tensor | fx.Proxy:
        """The block's output; a tracer gives it a stand-in of a tensor."""
        residual = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        if self.shortcut is not None:
            residual = residual + self.shortcut(x)
        return self.act2(residual)


def resnet18(
    input_shape: Sequence[int] = (3, 32, 32),
    *,
    num_classes: int = 10,
    bias: bool = False,
    activation: str = "relu",
    width: int = 64,
    without_skip: int | Collection[int] = (),
    normalisation: str = "batch",
    init: str = "pytorch",
    init_std: float | None = None,
    generator: torch.Generator | None = None,
    seed: int = 0,
    dtype: torch.dtype | str = torch.float32,
) -> nn.Sequential:
    """Make ResNet-18 in its form for small images: no pooling at the entrance, stride 1 there.

    Eight blocks, numbered 1 to 8, of two 3 x 3 convolutions each. Blocks 3, 5 and 7 halve the
    image and double the channels; their shortcut is a 1 x 1 convolution. At 32 x 32 and width 64
    the blocks' outputs are 64 x 32 x 32 (1, 2), 128 x 16 x 16 (3, 4), 256 x 8 x 8 (5, 6) and
    512 x 4 x 4 (7, 8). The average over the image goes to a fully connected layer.

    Args:
        input_shape: (channels, height, width).
        num_classes: Outputs; 1 is a single logit.
        bias: Whether ``fc``, and convolutions without normalisation, have a bias.
        activation: One of `gradaudit.models.ACTIVATIONS`; ``leaky_relu`` has slope 0.2.
        width: Channels of the first blocks.
        without_skip: Number, or numbers, of the blocks without a skip connection; 3 is the variant
            of R-GAP's rank analysis.
        normalisation: ``batch``, or ``none``.
        init: One of `gradaudit.models.INITIALISATIONS`.
        init_std: Standard deviation for ``normal``.
        generator: Source of all randomness. Variants of one seed have different weights after the
            first missing 1 x 1 convolution.
        seed: Starts a generator when none is given.
        dtype: float32 or float64.

    Returns:
        The network, on the CPU, in training mode as PyTorch makes it: call ``eval()`` for batch
        normalisation by running statistics.

    Raises:
        InputError: An argument cannot be used.

    Source:
        He et al., arXiv 1512.03385, table 1 and section 4.2; the variants: Zhu and Blaschko,
        arXiv 2010.07733, rank analysis.

    Example:
        >>> network = resnet18((3, 16, 16), width=4, without_skip=3).eval()
        >>> network(torch.zeros(2, 3, 16, 16)).shape, network.block3.shortcut is None
        (torch.Size([2, 10]), True)
    """
    channels, _, _ = check_image(input_shape, num_classes, smallest=1)
    removed = {without_skip} if isinstance(without_skip, int) else set(without_skip)
    if not removed <= set(range(1, BLOCKS + 1)):
        raise InputError("without_skip", str(sorted(removed)), f"blocks from 1 to {BLOCKS}")
    if normalisation not in NORMALISATIONS:
        raise InputError("normalisation", repr(normalisation), "one of batch, none")
    normalise = normalisation == "batch"
    parts = Parts(
        activation,
        bias=bias,
        init=init,
        init_std=init_std,
        generator=generator,
        seed=seed,
        dtype=dtype,
    )
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    modules["conv1"] = parts.convolution(
        channels, width, kernel=3, padding=1, bias=False if normalise else None
    )
    if normalise:
        modules["bn1"] = parts.batch_norm(width)
    modules["act1"] = parts.activation()
    inputs = width
    for block in range(1, BLOCKS + 1):
        halves = block in (3, 5, 7)
        outputs = 2 * inputs if halves else inputs
        modules[f"block{block}"] = ResidualBlock(
            parts,
            inputs,
            outputs,
            2 if halves else 1,
            skip=block not in removed,
            normalise=normalise,
        )
        inputs = outputs
    modules["pool"] = nn.AdaptiveAvgPool2d(1)
    modules["flatten"] = nn.Flatten()
    modules["fc"] = parts.dense(inputs, num_classes)
    return nn.Sequential(modules)
