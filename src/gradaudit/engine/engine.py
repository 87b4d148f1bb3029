"""Where units of work are done: one interface, an engine for each place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol

from gradaudit.budget import Control
from gradaudit.engine.unit import Done, Unit


class Engine(Protocol):
    """A place to do work; a context, whose end frees what it holds.

    What a unit gives depends on the unit alone, never on the engine. An `InputError` or any other
    exception of a unit is its failure and not the run's. A unit whose worker died is begun again,
    and given up after `MAX_ATTEMPTS`.
    """

    @property
    def name(self) -> str:
        """As on the command line."""

    @property
    def workers(self) -> int:
        """How many units are done at a time."""

    def run(self, units: Sequence[Unit], control: Control) -> Iterator[Done]:
        """Do all units, and give each when it is done, in the order in which they end.

        Args:
            units: What to do.
            control: Its interruption ends the run: what is not done is not given.
        """

    def __enter__(self) -> Engine: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


# A unit that took its worker down so often is what is wrong, not the workers.
MAX_ATTEMPTS = 3
