"""Sending few bits an entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.defenses.checks import check_choice, check_whole
from gradaudit.defenses.defense import SentDefense

# More levels than float32 tells apart between two numbers of one magnitude are none.
MOST_BITS = 16


@dataclass(frozen=True)
class Quantise(SentDefense):
    """Round every entry to one of 2^bits levels, evenly between a parameter's extremes.

        q = (u - min u) / d,   d = (max u - min u) / (2^bits - 1),   u  ->  min u + d round(q)

    With stochastic rounding, q goes up with the probability of its fraction, and the result is u
    on average. One bit leaves the two extremes. Zero is a level only by chance: entries that were
    zero, of neurons that no record activates, are zero no more.

    To nearest, the error of an entry is about uniform within half a step, of standard deviation
    d / sqrt(12).

    Attributes:
        bits: An entry's, 1 to 16.
        rounding: ``"nearest"`` or ``"stochastic"``.

    Raises:
        InputError: A value is out of its range.

    Source:
        Konečný et al., Federated learning: strategies for improving communication efficiency,
        2016, section 3, probabilistic quantization.

    Example:
        >>> Quantise(2).on_sent({"w": torch.tensor([-1.0, 0.1, 0.9, 2.0])}, torch.Generator())
        {'w': tensor([-1.,  0.,  1.,  2.])}
    """

    bits: int
    rounding: str = "nearest"

    def __post_init__(self) -> None:
        check_whole("bits", self.bits, 1, MOST_BITS)
        check_choice("rounding", self.rounding, ("nearest", "stochastic"))

    def on_sent(self, sent: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """See `SentDefense.on_sent`."""
        return {name: self._rounded(change, generator) for name, change in sent.items()}

    def _rounded(self, change: Tensor, generator: torch.Generator) -> Tensor:
        if change.numel() == 0:
            return change
        # Float16 has no room for 2^16 levels.
        wide = change.to(torch.promote_types(change.dtype, torch.float32))
        low, high = wide.amin(), wide.amax()
        step = (high - low) / (2**self.bits - 1)
        if step == 0:
            return change
        levels = (wide - low) / step
        if self.rounding == "stochastic":
            drawn = torch.rand(
                wide.shape, generator=generator, dtype=wide.dtype, device=generator.device
            )
            levels = (levels + drawn.to(wide.device)).floor()
        else:
            levels = levels.round()
        return (low + step * levels.clamp(0, 2**self.bits - 1)).to(change.dtype)
