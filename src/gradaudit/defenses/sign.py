"""Sending signs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.defenses.checks import check_truth_value
from gradaudit.defenses.defense import SentDefense


@dataclass(frozen=True)
class Sign(SentDefense):
    """Send the sign of every entry, -1, 0 or 1, and nothing of its size.

    ::

        u  ->  sign(u),      or  mean|u| sign(u) for each parameter, where ``scaled``

    Attributes:
        scaled: Whether each parameter's mean magnitude is sent beside the signs.

    Raises:
        InputError: ``scaled`` is neither true nor false.

    Source:
        Bernstein et al., signSGD, 2018; scaled: Karimireddy et al., Error feedback fixes signSGD,
        2019.

    Example:
        >>> Sign(scaled=True).on_sent({"w": torch.tensor([3.0, -1.0, 0.0])}, torch.Generator())
        {'w': tensor([ 1.3333, -1.3333,  0.0000])}
    """

    scaled: bool = False

    def __post_init__(self) -> None:
        check_truth_value("scaled", self.scaled)

    def on_sent(self, sent: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """See `SentDefense.on_sent`; nothing is drawn."""
        return {
            name: change.sign() * change.abs().mean() if self.scaled else change.sign()
            for name, change in sent.items()
        }
