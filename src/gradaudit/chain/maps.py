"""Fixed linear maps: average pooling, and normalisation whose statistics do not move."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class AveragePool:
    """The mean of every window.

    Attributes:
        name: Module path, or the name of the call in the traced forward.
        input_shape: (C, H, W).
        output_shape: (C, H', W').
        kernel: Height and width of the window.
        stride: By axis.
        padding: Zeros on either side.
        count_padding: Whether these count in the mean.
        divisor: What sums are divided by, if it is not the number of entries.
        ceil: Whether a window may reach over the edge.
    """

    name: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] = (0, 0)
    count_padding: bool = True
    divisor: int | None = None
    ceil: bool = False

    def __call__(self, inputs: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c p q"]:
        """The means."""
        return functional.avg_pool2d(
            inputs,
            self.kernel,
            self.stride,
            self.padding,
            self.ceil,
            self.count_padding,
            self.divisor,
        )

    def linear(self, inputs: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c p q"]:
        """Without constants, of which it has none."""
        return self(inputs)

    def adjoint(self, outputs: Float[Tensor, "b c p q"]) -> Float[Tensor, "b c h w"]:
        """Each window's value back to its entries, over their number."""
        blank = outputs.new_zeros(len(outputs), *self.input_shape)
        return torch.func.vjp(self, blank)[1](outputs)[0]


@dataclass(frozen=True, eq=False)
class ChannelScale:
    """A factor and a constant for every channel: normalisation in evaluation mode.

    Attributes:
        name: Module path.
        scale: One a channel, the second dimension of a batch.
        shift: The same.
        shape: Without the batch.
    """

    name: str
    scale: Float[Tensor, " c"]
    shift: Float[Tensor, " c"]
    shape: tuple[int, ...]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """As `shape`; every step has both."""
        return self.shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """As `shape`; every step has both."""
        return self.shape

    @property
    def invertible(self) -> bool:
        """Whether no factor is zero."""
        return bool((self.scale != 0).all())

    def __call__(self, inputs: Float[Tensor, "b c ..."]) -> Float[Tensor, "b c ..."]:
        """Scaled and shifted."""
        return self.linear(inputs) + self._spread(self.shift)

    def linear(self, inputs: Float[Tensor, "b c ..."]) -> Float[Tensor, "b c ..."]:
        """Scaled alone."""
        return inputs * self._spread(self.scale)

    def adjoint(self, outputs: Float[Tensor, "b c ..."]) -> Float[Tensor, "b c ..."]:
        """Scaled alone: a diagonal map is its own adjoint."""
        return self.linear(outputs)

    def inverse(self, outputs: Float[Tensor, "b c ..."]) -> Float[Tensor, "b c ..."]:
        """What was scaled and shifted."""
        return (outputs - self._spread(self.shift)) / self._spread(self.scale)

    def _spread(self, values: Tensor) -> Tensor:
        return values.reshape(1, -1, *[1] * (len(self.shape) - 1))
