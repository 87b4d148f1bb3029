"""Several defences, one after another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradaudit.defenses.defense import (
    Defense,
    RecordDefense,
    RepresentationDefense,
    SentDefense,
    draw_noise,
)
from gradaudit.errors import InputError

# In the order in which they can be applied, and what each kind works on.
_STAGES: dict[type[Defense], str] = {
    RepresentationDefense: "those on representations",
    RecordDefense: "those on single records' gradients",
    SentDefense: "those on what is sent",
}


@dataclass(frozen=True)
class Pipeline:
    """Defences in their order: on representations, then on records, then on what is sent.

    Attributes:
        on_representations: Applied to each record's gradient, with model and record at hand.
        on_records: Applied to each record's gradient, in this order.
        on_sent: Applied to what is sent, in this order.
    """

    on_representations: tuple[RepresentationDefense, ...] = ()
    on_records: tuple[RecordDefense, ...] = ()
    on_sent: tuple[SentDefense, ...] = ()

    @classmethod
    def of(cls, defenses: Sequence[Defense]) -> Pipeline:
        """Sort defences by kind.

        Args:
            defenses: In the order in which they are to be applied.

        Raises:
            InputError: One is no defence, or comes after one of a later kind.

        Example:
            >>> from gradaudit.defenses import ClipPerRecord, Prune
            >>> Pipeline.of([ClipPerRecord(1.0), Prune(0.9)]).on_sent
            (Prune(share=0.9, per='tensor'),)
        """
        stages = tuple(_STAGES)
        if isinstance(defenses, stages):
            raise InputError(
                "defenses", type(defenses).__name__, "a sequence of defences", "put it in a list"
            )
        last = 0
        for place, defense in enumerate(defenses):
            if not isinstance(defense, stages):
                raise InputError(
                    "defenses", type(defense).__name__, "defences, as in gradaudit.defenses"
                )
            stage = next(i for i, kind in enumerate(stages) if isinstance(defense, kind))
            if stage < last:
                name, earlier = type(defense).__name__, type(defenses[place - 1]).__name__
                raise InputError(
                    "defenses",
                    f"{name} after {earlier}",
                    f"{_STAGES[stages[stage]]} before {_STAGES[stages[last]]}",
                    f"put {name} first",
                )
            last = stage
        return cls(
            tuple(d for d in defenses if isinstance(d, RepresentationDefense)),
            tuple(d for d in defenses if isinstance(d, RecordDefense)),
            tuple(d for d in defenses if isinstance(d, SentDefense)),
        )

    @property
    def needs_records(self) -> bool:
        """Whether the gradient of each record is needed by itself."""
        return bool(self.on_representations or self.on_records)

    def hide(
        self,
        model: nn.Module,
        inputs: Float[Tensor, "b ..."],
        gradients: Iterable[Mapping[str, Tensor]],
    ) -> Iterator[Mapping[str, Tensor]]:
        """Defend what the gradients of single records show of their representations.

        Args:
            model: As it computed these gradients.
            inputs: Network inputs, one record a row, of all portions.
            gradients: By parameter, one record a row, in portions of the batch.

        Yields:
            The portions, changed.
        """
        done = 0
        for portion in gradients:
            count = len(next(iter(portion.values())))
            for defense in self.on_representations:
                portion = defense.on_representations(  # noqa: PLW2901 - what goes on is the changed
                    model, inputs[done : done + count], portion
                )
            done += count
            yield portion

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
