"""How a model is trained to see what a defence costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradaudit.defending.checks import check_count
from gradaudit.errors import InputError


@dataclass(frozen=True)
class Training:
    """Training on what one defended client sends, in one round after another.

    Every round, the client takes records at random, and the server turns what it sends into a step
    of Adam, in which a defence that only changes the length of what is sent costs nothing.

    Attributes:
        rounds: How many.
        learning_rate: Adam's, on the server.
        records: Drawn from the source at most, for training and for the held-out part together.
        held_out: Share of these that accuracy is measured on.

    Raises:
        InputError: A value is out of its range.
    """

    rounds: int = 300
    learning_rate: float = 1e-3
    records: int = 2_500
    held_out: float = 0.2

    def __post_init__(self) -> None:
        check_count("training.rounds", self.rounds)
        check_count("training.records", self.records)
        if not 0 < self.learning_rate < float("inf"):
            found = repr(self.learning_rate)
            raise InputError("training.learning_rate", found, "a positive number")
        if not 0 < self.held_out < 1:
            raise InputError("training.held_out", repr(self.held_out), "between 0 and 1")

    def split(self, available: int | None) -> tuple[int, int]:
        """Records to train on, and records held out.

        Args:
            available: Of the source; None where it has no end.

        Example:
            >>> Training().split(1000), Training().split(None)
            ((800, 200), (2000, 500))
        """
        drawn = self.records if available is None else min(self.records, available)
        held_out = max(1, round(self.held_out * drawn))
        return drawn - held_out, held_out


@dataclass(frozen=True)
class Trained:
    """What training came to.

    Attributes:
        accuracy: Share of held-out records whose class is right.
        held_out: How many these are.
    """

    accuracy: float
    held_out: int

    @property
    def standard_error(self) -> float:
        """Of the accuracy, by the number of held-out records alone: sqrt(a (1 - a) / n).

        Example:
            >>> round(Trained(0.9, 900).standard_error, 6)
            0.01
        """
        return math.sqrt(self.accuracy * (1 - self.accuracy) / self.held_out)
