"""Gaussian noise on what is sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.defenses.checks import check_number
from gradaudit.defenses.defense import SentDefense, draw_noise


@dataclass(frozen=True)
class GaussianNoise(SentDefense):
    """Add independent Gaussian noise to every entry of what is sent.

        u  ->  u + N(0, s^2)

    With `ClipUpdate` before it, the Gaussian mechanism of local differential privacy for clients.

    Attributes:
        deviation: s, in the units of what is sent: of a gradient, or of a difference of weights,
            which the learning rate has made smaller; 0 or more.

    Raises:
        InputError: The deviation is negative.

    Source:
        Dwork and Roth, The algorithmic foundations of differential privacy, 2014, section 3.5.3.

    Example:
        >>> sent = {"w": torch.zeros(10_000)}
        >>> noisy = GaussianNoise(0.5).on_sent(sent, torch.Generator().manual_seed(0))
        >>> round(noisy["w"].std().item(), 2)
        0.5
    """

    deviation: float

    def __post_init__(self) -> None:
        check_number("deviation", self.deviation, 0, math.inf, open_below=False)

    def on_sent(self, sent: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """See `SentDefense.on_sent`."""
        return {
            name: change + draw_noise(change, self.deviation, generator)
            for name, change in sent.items()
        }

    def noise_after(self, noise: float) -> float:
        """Variances add up."""
        return math.hypot(noise, self.deviation)
