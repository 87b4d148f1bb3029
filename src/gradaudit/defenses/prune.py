"""Sending only the largest entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.defenses.checks import check_choice, check_number
from gradaudit.defenses.defense import SentDefense


@dataclass(frozen=True)
class Prune(SentDefense):
    """Set the entries of least magnitude to zero (top-k sparsification).

    Of N entries, the k = N - round(share N) largest in magnitude are kept; where several have the
    same magnitude, the earlier ones.

    Attributes:
        share: Of the entries that are zeroed, 0 to 1; 0.9 sends one in ten.
        per: ``"tensor"``: each parameter by itself; ``"model"``: all parameters together, so that
            whole layers of small gradients may vanish.

    Raises:
        InputError: A value is out of its range.

    Source:
        Zhu et al., Deep leakage from gradients, 2019, section 5.2; Lin et al., Deep gradient
        compression, 2018.

    Example:
        >>> sent = {"w": torch.tensor([3.0, -4.0, 0.5, 1.0])}
        >>> Prune(0.5).on_sent(sent, torch.Generator())
        {'w': tensor([ 3., -4.,  0.,  0.])}
    """

    share: float
    per: str = "tensor"

    def __post_init__(self) -> None:
        check_number("share", self.share, 0, 1, open_below=False)
        check_choice("per", self.per, ("tensor", "model"))

    def on_sent(self, sent: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """See `SentDefense.on_sent`; nothing is drawn."""
        if self.per == "tensor":
            return {name: change * self._kept(change) for name, change in sent.items()}
        together = self._kept(torch.cat([change.flatten() for change in sent.values()]))
        parts = torch.split(together, [change.numel() for change in sent.values()])
        return {
            name: change * kept.reshape(change.shape)
            for (name, change), kept in zip(sent.items(), parts, strict=True)
        }

    def _kept(self, change: Tensor) -> Tensor:
        """Which entries are sent."""
        # A stable sort, and not top-k, which breaks ties differently from device to device.
        order = change.abs().flatten().argsort(descending=True, stable=True)
        kept = torch.ones(change.numel(), dtype=torch.bool, device=change.device)
        kept[order[change.numel() - round(self.share * change.numel()) :]] = False
        return kept.reshape(change.shape)
