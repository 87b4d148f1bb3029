"""Sending random entries only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.defenses.checks import check_number, check_whole
from gradaudit.defenses.defense import SentDefense


@dataclass(frozen=True)
class Mask(SentDefense):
    """Set random entries to zero, each by itself with probability ``share``.

        u  ->  m u,   m_k = 0 with probability share, else 1

    The mask comes from a seed of its own, as where server and clients agree on one, and is the
    same at each call; its ones are not scaled up.

    Attributes:
        share: Probability that an entry is zeroed, 0 to 1.
        seed: Of the mask.

    Raises:
        InputError: A value is out of its range.

    Source:
        Konečný et al., Federated learning: strategies for improving communication efficiency,
        2016, section 2, random mask.

    Example:
        >>> Mask(0.5, seed=1).on_sent({"w": torch.ones(6)}, torch.Generator())
        {'w': tensor([1., 0., 0., 1., 0., 1.])}
    """

    share: float
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("share", self.share, 0, 1, open_below=False)
        check_whole("seed", self.seed, 0, 2**63 - 1)

    def on_sent(self, sent: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """See `SentDefense.on_sent`; the mask is drawn from its own seed."""
        own = torch.Generator().manual_seed(self.seed)
        return {
            name: change * (torch.rand(change.shape, generator=own) >= self.share).to(change.device)
            for name, change in sent.items()
        }
