"""Several defences, one after another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradaudit.defenses.defense import Defense, RecordDefense, SentDefense, draw_noise
from gradaudit.errors import InputError


@dataclass(frozen=True)
class Pipeline:
    """Defences in their order: first those on records, then those on what is sent.

    Attributes:
        on_records: Applied to each record's gradient, in this order.
        on_sent: Applied to what is sent, in this order.
    """

    on_records: tuple[RecordDefense, ...] = ()
    on_sent: tuple[SentDefense, ...] = ()

    @classmethod
    def of(cls, defenses: Sequence[Defense]) -> Pipeline:
        """Sort defences by kind.

        Args:
            defenses: In the order in which they are to be applied.

        Raises:
            InputError: One is no defence, or one on records follows one on what is sent.

        Example:
            >>> from gradaudit.defenses import ClipPerRecord, Prune
            >>> Pipeline.of([ClipPerRecord(1.0), Prune(0.9)]).on_sent
            (Prune(share=0.9, per='tensor'),)
        """
        on_records: list[RecordDefense] = []
        on_sent: list[SentDefense] = []
        for defense in defenses:
            if isinstance(defense, SentDefense):
                on_sent.append(defense)
            elif not isinstance(defense, RecordDefense):
                raise InputError(
                    "defenses", type(defense).__name__, "defences, as in gradaudit.defenses"
                )
            elif on_sent:
                name, earlier = type(defense).__name__, type(on_sent[-1]).__name__
                raise InputError(
                    "defenses",
                    f"{name} after {earlier}",
                    "defences on single records before those on what is sent",
                    f"put {name} first",
                )
            else:
                on_records.append(defense)
        return cls(tuple(on_records), tuple(on_sent))

    def reduce(
        self,
        gradients: Iterable[Mapping[str, Tensor]],
        batch_size: int,
        reduction: str,
        generator: torch.Generator,
    ) -> tuple[dict[str, Tensor], float]:
        """Defend the gradients of single records, and make one gradient of them.

        Args:
            gradients: By parameter, one record a row, in portions of the batch.
            batch_size: Records in all portions.
            reduction: ``"mean"`` or ``"sum"``.
            generator: Of the noise.

        Returns:
            The gradient, and the standard deviation of the noise in each of its entries.
        """
        total: dict[str, Tensor] = {}
        for portion in gradients:
            rows = dict(portion)
            for defense in self.on_records:
                rows = defense.on_records(rows)
            for name, row in rows.items():
                total[name] = total[name] + row.sum(0) if name in total else row.sum(0)
        noise = math.hypot(*(defense.noise_of_sum for defense in self.on_records))
        divisor = 1.0
        if reduction == "mean":
            divisor = float(batch_size)
            for defense in self.on_records:
                divisor = defense.divisor(divisor)
        if noise:
            total = {name: t + draw_noise(t, noise, generator) for name, t in total.items()}
        return {name: t / divisor for name, t in total.items()}, noise / divisor

    def send(
        self, sent: Mapping[str, Tensor], noise: float | None, generator: torch.Generator
    ) -> tuple[dict[str, Tensor], float | None]:
        """Defend what is sent.

        Args:
            sent: By parameter.
            noise: Standard deviation of independent Gaussian noise in each entry, 0 for none, or
                None where it is unknown.
            generator: Of everything that is drawn.

        Returns:
            What is sent now, and the noise in it; None where it is not known exactly.
        """
        changed = dict(sent)
        for defense in self.on_sent:
            changed = defense.on_sent(changed, generator)
            noise = None if noise is None else defense.noise_after(noise)
        return changed, noise
