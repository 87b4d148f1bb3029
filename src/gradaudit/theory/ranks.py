r"""How many independent linear equations a layer's input obeys: exact ranks, without torch.

R-GAP (Zhu and Blaschko, arXiv 2010.07733) knows, at one layer, the loss gradient k at the layer's
output, the layer's output z, its weight W and the gradient dW, and solves for the input x:

- gradient constraints :math:`K x = dW`, linear in x with coefficients from k;
- weight constraints :math:`W x = z`.

For a convolution with C input and O output channels and L output positions, let k be O x L of
rank r. dW[o, c, :] depends on channel c of x alone, so K is C times the same matrix B, of size
(O * taps) x (H * W). A tap and an input position belong to the same stride phase f or never meet:

.. math:: \mathrm{rank}(B) = \sum_f \min(r\,\mathrm{taps}_f, \mathrm{positions}_f)

.. math:: \mathrm{rank}([K; W]) = \min(n, C\,\mathrm{rank}(B) + O L - O r)

The last term: :math:`W dW^\top = z k^\top` holds for every x, which makes O r equations redundant.
What differs from this plain form in general:

- Padding: entries of it are known zeros and no unknowns. Taps that only meet padding count for
  nothing, and so do output positions that only see padding.
- A stride beyond the kernel's reach leaves positions that no tap meets: at most the entries that
  some tap meets can be determined.
- Groups are convolutions of their own, one after another; r is then each group's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from gradaudit.errors import InputError

Pair = tuple[int, int]


@dataclass(frozen=True)
class Convolution:
    """The sizes of a convolution; a fully connected layer is one of kernel 1 on a single pixel.

    Attributes:
        in_channels: C, of all groups.
        out_channels: O, of all groups.
        input_size: Height and width, without padding.
        kernel: Height and width.
        stride: By axis.
        padding: Zeros on either side, by axis.
        dilation: Distance of a kernel's taps, by axis.
        groups: Of channels that are convolved apart.

    Raises:
        InputError: A size is not positive, the groups do not divide the channels, or the kernel
            does not fit.

    Example:
        >>> Convolution(3, 12, (32, 32), (4, 4), (2, 2), (2, 2)).output_size
        (17, 17)
    """

    in_channels: int
    out_channels: int
    input_size: Pair
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        single = (self.in_channels, self.out_channels, self.groups)
        by_axis = (*self.input_size, *self.kernel, *self.stride, *self.dilation)
        if min(single + by_axis) < 1 or min(self.padding) < 0:
            raise InputError("convolution", str(self), "sizes of 1 or more, padding of 0 or more")
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise InputError("groups", str(self.groups), "a divisor of both numbers of channels")
        if min(self.output_size) < 1:
            raise InputError(
                "kernel", f"{self.kernel} on {self.input_size}", "one that fits the padded image"
            )

    @classmethod
    def dense(cls, inputs: int, outputs: int) -> Convolution:
        """A fully connected layer.

        Example:
            >>> Convolution.dense(5, 2).unknowns
            5
        """
        return cls(inputs, outputs, (1, 1), (1, 1))

    @property
    def output_size(self) -> Pair:
        """Height and width of the output."""
        height, width = (
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, padding, dilation in zip(
                self.input_size, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )
        return height, width

    @property
    def unknowns(self) -> int:
        """Entries of the input."""
        return self.in_channels * self.input_size[0] * self.input_size[1]

    @property
    def outputs(self) -> int:
        """Entries of the output."""
        return self.out_channels * self.output_size[0] * self.output_size[1]

    @property
    def parameters(self) -> int:
        """Entries of the weight."""
        taps = self.kernel[0] * self.kernel[1]
        return self.out_channels * self.in_channels // self.groups * taps

    @cached_property
    def axes(self) -> tuple[Axis, Axis]:
        """What meets what along height and width."""
        height, width = (
            Axis.of(
                size=self.input_size[axis],
                outputs=self.output_size[axis],
                kernel=self.kernel[axis],
                stride=self.stride[axis],
                padding=self.padding[axis],
                dilation=self.dilation[axis],
            )
            for axis in (0, 1)
        )
        return height, width


@dataclass(frozen=True, eq=False)
class Axis:
    """What meets what along one axis of a convolution.

    Attributes:
        met: The input position that an output sees through a tap, -1 for padding.
        phases: By stride phase, how many taps and how many positions meet anything.
        seen: Positions that some tap meets.
        live: Outputs that see anything but padding.
    """

    met: Int[np.ndarray, "outputs taps"]
    phases: dict[int, Pair]
    seen: int
    live: int

    @classmethod
    def of(
        cls, *, size: int, outputs: int, kernel: int, stride: int, padding: int, dilation: int
    ) -> Axis:
        """Work it out from the sizes.

        Example:
            >>> Axis.of(size=5, outputs=2, kernel=2, stride=3, padding=0, dilation=1).seen
            4
        """
        offsets = np.arange(kernel) * dilation - padding
        met = np.arange(outputs)[:, None] * stride + offsets
        met = np.where((met >= 0) & (met < size), met, -1)
        positions = np.unique(met[met >= 0])
        taps_by_phase = Counter((offsets[(met >= 0).any(0)] % stride).tolist())
        positions_by_phase = Counter((positions % stride).tolist())
        phases = {f: (taps_by_phase[f], count) for f, count in positions_by_phase.items()}
        return cls(met, phases, len(positions), int((met >= 0).any(1).sum()))


@dataclass(frozen=True)
class LayerRank:
    """The equations of one layer, counted and counted exactly.

    Attributes:
        unknowns: Entries of the layer's input, n.
        gradient_constraints: Entries of the weight's gradient.
        weight_constraints: Entries of the layer's output.
        gradient_rank: Rank of the gradient constraints alone, C rank(B).
        independent: Independent equations if there were unknowns enough: C rank(B) + OL - Or.
        determined: At most so many unknowns occur in any equation.
    """

    unknowns: int
    gradient_constraints: int
    weight_constraints: int
    gradient_rank: int
    independent: int
    determined: int

    @property
    def naive_index(self) -> int:
        """The paper's count: all equations but one, less the unknowns."""
        return self.gradient_constraints + self.weight_constraints - 1 - self.unknowns

    @property
    def exact_rank(self) -> int:
        """Rank of all equations together."""
        return min(self.determined, self.independent)

    @property
    def exact_index(self) -> int:
        """Independent equations less unknowns; negative by the deficit."""
        if self.determined < self.unknowns:
            return self.exact_rank - self.unknowns
        return self.independent - self.unknowns

    @property
    def deficit(self) -> int:
        """Dimensions of the input that the layer's linear equations leave open."""
        return self.unknowns - self.exact_rank


def layer_rank(layer: Convolution, output_gradient_rank: int | None = None) -> LayerRank:
    r"""The rank of a layer's gradient and weight constraints, for generic weights and gradients.

    An upper bound always. It is attained but for relations that counting does not see, which
    lower the rank by a few: kernels as large as the layer's output in both directions; outputs at
    a border that see fewer entries than there are output channels; one output channel more than
    input channels, without padding. `measure_rank` finds the rank there too.

    Args:
        layer: Its sizes.
        output_gradient_rank: r, the rank of the loss gradient at the output as a matrix (channels
            of a group, positions); by default as large as it can be.

    Raises:
        InputError: The rank is not from 1 to the largest possible.

    Source:
        Zhu and Blaschko, arXiv 2010.07733, counts equations; the ranks are our own derivation.

    Example:
        >>> second = Convolution(12, 20, (17, 17), (3, 3), (2, 2), (1, 1))
        >>> layer_rank(second).naive_index, layer_rank(second).exact_index
        (311, -280)
    """
    rows, columns = layer.axes
    inputs, outputs = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    live = rows.live * columns.live
    r = _gradient_rank(output_gradient_rank, min(outputs, live))
    rank_of_b = sum(
        min(r * taps_h * taps_w, positions_h * positions_w)
        for taps_h, positions_h in rows.phases.values()
        for taps_w, positions_w in columns.phases.values()
    )
    seen = inputs * rows.seen * columns.seen
    independent = inputs * rank_of_b + outputs * (live - r)
    return LayerRank(
        unknowns=layer.unknowns,
        gradient_constraints=layer.parameters,
        weight_constraints=layer.outputs,
        gradient_rank=layer.groups * inputs * rank_of_b,
        independent=layer.groups * independent,
        determined=layer.groups * seen,
    )


def _gradient_rank(given: int | None, largest: int) -> int:
    if given is None:
        return largest
    if not 1 <= given <= largest:
        raise InputError("output_gradient_rank", str(given), f"1 to {largest}")
    return given
