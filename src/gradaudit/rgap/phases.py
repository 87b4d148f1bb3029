r"""The parts of an image that a strided convolution never sees together.

Tap t of a kernel meets entry e of an image at output l where :math:`e = s l + d t - p` along each
axis, with stride s, dilation d and padding p: entries and taps whose places differ modulo s share
no equation. B, the matrix of one channel's gradient equations, falls apart into a block for each of
these phases. Blocks are padded with zeros to one size, so that they are decomposed together.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn import functional

from gradaudit.chain import Affine


class Phases:
    """How a layer's taps and the entries of an input channel fall into blocks.

    Args:
        layer: A convolution, or a fully connected layer, whose channels are single entries.

    Attributes:
        seen: For each tap and output position, which entry is met there; -1 in the padding.
        entries: In a channel.
        channels: That a group of outputs sees.
    """

    def __init__(self, layer: Affine) -> None:
        device = layer.weight.device
        height, width = layer.input_shape[1:] if layer.is_convolution else (1, 1)
        self.entries = height * width
        self.channels = layer.unknowns // (layer.groups * self.entries)
        self.seen = (
            _seen(layer, height, width) if layer.is_convolution else torch.zeros(1, 1).long()
        ).to(device)
        kernel = layer.kernel if layer.is_convolution else (1, 1)
        vertical, horizontal = (
            [(place * step - pad) % stride for place in range(size)]
            for size, step, pad, stride in zip(
                kernel, layer.dilation, layer.padding, layer.stride, strict=True
            )
        )
        stride_v, stride_h = layer.stride
        of_taps = [a * stride_h + b for a in vertical for b in horizontal]
        of_entries = [
            a % stride_v * stride_h + b % stride_h for a in range(height) for b in range(width)
        ]
        count = stride_v * stride_h
        self._taps = _members(of_taps, count).to(device)
        self._entries = _members(of_entries, count).to(device)
        # Where each entry stands among all blocks, one after the other.
        flat = self._entries.flatten()
        self._places = flat.argsort(stable=True)[: self.entries]

    def split(self, channels: Shaped[Tensor, "p g c s"]) -> Shaped[Tensor, "p g f c e"]:
        """Images of single channels, phase by phase."""
        return functional.pad(channels, (0, 1))[..., self._entries].transpose(2, 3)

    def join(self, blocks: Shaped[Tensor, "p g f c e"]) -> Shaped[Tensor, "p g c s"]:
        """Of `split`: both its adjoint and its inverse."""
        return blocks.transpose(2, 3).flatten(3)[..., self._places]

    def matrix(self, k: Float[Tensor, "p g o l"]) -> Float[Tensor, "p g f r e"]:
        r"""B by phase: what the gradient equations are for each channel alone.

        The gradient of a weight depends on its own input channel only, and for all channels of a
        group in the same way. Rows are outputs times taps.

        Args:
            k: Loss gradient at the layer's own output.
        """
        problems, groups, outputs, positions = k.shape
        phases, size = self._entries.shape
        # What lies in the padding goes to one entry more, and so do taps that fill up a block.
        local = functional.pad(self._places % size, (0, 1), value=size)[self.seen]
        local = functional.pad(local, (0, 0, 0, 1), value=size)[self._taps]
        taps = local.shape[1]
        matrix = k.new_zeros(problems, groups, phases, outputs, taps, size + 1)
        shape = (*matrix.shape[:-1], positions)
        matrix.scatter_add_(
            5, local[:, None].expand(shape), k[:, :, None, :, None, :].expand(shape)
        )
        return matrix[..., :size].flatten(3, 4)

    def rows(self, gradient: Float[Tensor, "p g o c t"]) -> Float[Tensor, "p g f r c"]:
        """A weight's gradient as right-hand sides of `matrix`, one column a channel."""
        by_phase = functional.pad(gradient, (0, 1))[..., self._taps]
        return by_phase.permute(0, 1, 4, 2, 5, 3).flatten(3, 4)


def _seen(layer: Affine, height: int, width: int) -> Int[Tensor, "taps positions"]:
    # Exact in float64 for any image that fits in memory.
    numbers = torch.arange(1, height * width + 1, dtype=torch.float64)
    seen = functional.unfold(
        numbers.reshape(1, 1, height, width),
        layer.kernel,
        layer.dilation,
        layer.padding,
        layer.stride,
    )
    return seen[0].long() - 1


def _members(phases: list[int], count: int) -> Int[Tensor, "phases most"]:
    """Which numbers are of each phase; filled up with the first number that there is not."""
    members = [[n for n, phase in enumerate(phases) if phase == p] for p in range(count)]
    most = max(map(len, members))
    return torch.tensor([row + [len(phases)] * (most - len(row)) for row in members])
