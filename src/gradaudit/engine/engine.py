"""Where units of work are done: one interface, an engine for each place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol, runtime_checkable

from gradaudit.budget import Control
from gradaudit.engine.unit import Done, Unit
from gradaudit.errors import InputError

# A unit that took its worker down so often is what is wrong, not the workers.
MAX_ATTEMPTS = 3
# An engine looks so often whether the run was interrupted.
TICK_SECONDS = 0.1


@runtime_checkable
class Engine(Protocol):
    """A place to do work; a context, whose end frees what it holds.

    What a unit gives depends on the unit alone, never on the engine; to the last bit, as every
    engine gives torch one thread a unit unless told otherwise. An `InputError` or any other
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

        Units that are under way when the caller stops asking for more are dropped.

        Args:
            units: What to do.
            control: Its interruption ends the run: what is not done is not given.

        Raises:
            InputError: Two units have one key.
            GradauditError: The engine itself does not work.
        """

    def __enter__(self) -> Engine: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def is_over(control: Control) -> bool:
    """Whether a run was interrupted, which may be so a moment after it was not."""
    return control.interrupted


def check_units(units: Sequence[Unit]) -> None:
    """Check that units can be told apart.

    Raises:
        InputError: Two have one key.
    """
    seen: set[str] = set()
    for unit in units:
        if unit.key in seen:
            raise InputError("units", f"two with the key {unit.key!r}", "a key of its own for each")
        seen.add(unit.key)


def check_count(argument: str, value: int) -> int:
    """A number of workers or threads.

    Raises:
        InputError: It is no whole number from 1 on.

    Example:
        >>> check_count("workers", 2)
        2
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(argument, repr(value), "a whole number from 1 on")
    return value
