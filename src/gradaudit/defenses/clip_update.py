"""Clipping what is sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.defenses.checks import check_number
from gradaudit.defenses.defense import SentDefense


@dataclass(frozen=True)
class ClipUpdate(SentDefense):
    """Shorten what is sent to a norm of at most C, over all parameters together.

    ::

        u  ->  u min(1, C / |u|)

    A change of scale alone, which hides nothing by itself; it bounds what one client can
    contribute, for noise that is added afterwards (privacy of clients rather than records).

    Attributes:
        norm: C, in the units of what is sent; positive.

    Raises:
        InputError: The norm is not positive.

    Source:
        McMahan et al., Learning differentially private recurrent language models, 2018,
        algorithm 1 (flat clipping).

    Example:
        >>> sent = {"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}
        >>> ClipUpdate(1.0).on_sent(sent, torch.Generator())
        {'a': tensor([0.6000]), 'b': tensor([0.8000])}
    """

    norm: float

    def __post_init__(self) -> None:
        check_number("norm", self.norm, 0, math.inf, open_below=True)

    def on_sent(self, sent: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """See `SentDefense.on_sent`; nothing is drawn."""
        norms = [torch.linalg.vector_norm(change, dtype=torch.float64) for change in sent.values()]
        length = torch.linalg.vector_norm(torch.stack(norms))
        factor = (self.norm / length.clamp(min=self.norm)).item()
        return {name: change * factor for name, change in sent.items()}
