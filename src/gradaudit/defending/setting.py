"""One point of the grid: a client, and what it does before it sends anything."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gradaudit.defending.checks import check_count
from gradaudit.defenses import NO_DEFENSE, Defense, Pipeline, parse_defense
from gradaudit.errors import InputError
from gradaudit.update import LocalTraining


@dataclass(frozen=True)
class Setting:
    """A client and its defences.

    Attributes:
        batch_size: The client's records; one batch, unless it trains locally in smaller ones.
        width: Neurons of each of two hidden ReLU layers that fit the data; None with a model.
        model: A network, as `gradaudit.models.parse_model` reads it; None with a width.
        training: Local training (FedAvg), or None for one gradient (FedSGD).
        defenses: As `gradaudit.defenses.parse_defense` reads them, applied in this order.

    Raises:
        InputError: Not one of model and width, or defences that cannot be made or combined.

    Example:
        >>> Setting(8, width=100, defenses=("prune:share=0.9", "quantise:bits=8")).defense
        'prune:share=0.9 + quantise:bits=8'
    """

    batch_size: int
    width: int | None = None
    model: str | None = None
    training: LocalTraining | None = None
    defenses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size)
        if self.width is not None:
            check_count("width", self.width)
        if (self.width is None) == (self.model is None):
            raise InputError("width, model", f"{self.width}, {self.model!r}", "one of the two")
        self.parsed()

    def parsed(self) -> list[Defense]:
        """The defences themselves.

        Raises:
            InputError: One cannot be made, or they cannot be combined in this order.
        """
        made = [parse_defense(text) for text in self.defenses]
        Pipeline.of(made)
        return made

    @property
    def defense(self) -> str:
        """The defences in one text; ``"none"`` without any."""
        return " + ".join(self.defenses) or NO_DEFENSE

    @property
    def client(self) -> Setting:
        """The same client without a defence."""
        return replace(self, defenses=())

    def along(self) -> tuple[tuple[str, float], ...]:
        """Every number of the setting, by what it is a number of.

        Example:
            >>> Setting(8, width=100, defenses=("mask:share=0.5",)).along()
            (('batch size', 8.0), ('width', 100.0), ('share of mask', 0.5))
        """
        numbers = [("batch size", float(self.batch_size))]
        if self.width is not None:
            numbers.append(("width", float(self.width)))
        if self.training is not None:
            numbers.append(("local epochs", float(self.training.epochs)))
        for text in self.defenses:
            name, _, options = text.partition(":")
            for part in filter(None, options.split(",")):
                key, _, value = part.partition("=")
                try:
                    numbers.append((f"{key} of {name}", float(value)))
                except ValueError:
                    continue  # A word, such as a way of rounding.
        return tuple(numbers)


def expand(text: str) -> list[tuple[str, ...]]:
    """Defences from a text in which ``/`` separates alternatives and ``+`` what goes together.

    Args:
        text: Such as ``"clip-per-record:norm=1+prune:share=0.5/0.9"``, or ``"none"``.

    Returns:
        All combinations of the alternatives, in order; each a sequence of defences.

    Raises:
        InputError: An alternative is empty.

    Example:
        >>> expand("sign"), expand("none"), expand("dp-sgd:clip=1/2,noise=0")
        ([('sign',)], [()], [('dp-sgd:clip=1,noise=0',), ('dp-sgd:clip=2,noise=0',)])
        >>> expand("prune:share=0.5/0.9+sign")
        [('prune:share=0.5', 'sign'), ('prune:share=0.9', 'sign')]
    """
    if text.strip() == NO_DEFENSE:
        return [()]
    found = [""]
    for piece in re.split(r"([,+:])", text.strip()):
        key, equals, values = piece.rpartition("=")
        choices = [value.strip() for value in values.split("/")]
        if not all(choices) and piece not in (",", "+", ":"):
            raise InputError("defense", repr(text), "NAME:key=value, with / between alternatives")
        found = [start + key + equals + choice for start in found for choice in choices]
    return [tuple(each.split("+")) for each in found]
