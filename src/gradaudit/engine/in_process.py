"""Units one after another, in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import TracebackType

from gradaudit.budget import Control
from gradaudit.engine.unit import Done, Unit
from gradaudit.errors import GradauditError


class InProcess:
    """The engine that needs nothing.

    Example:
        >>> from gradaudit.theory import coupon_collector
        >>> units = [Unit("three", coupon_collector, {"batch_size": 3})]
        >>> with InProcess() as engine:
        ...     [(done.key, round(done.value, 3)) for done in engine.run(units, Control())]
        [('three', 5.5)]
    """

    name = "in-process"
    workers = 1

    def run(self, units: Sequence[Unit], control: Control) -> Iterator[Done]:
        """Do all units in their order; see `gradaudit.engine.Engine`."""
        for unit in units:
            if control.interrupted:
                return
            done = do(unit)
            if control.interrupted:
                return
            yield done

    def __enter__(self) -> InProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is held."""


def do(unit: Unit, *, worker: str = "", attempts: int = 1) -> Done:
    """Do a unit here and now; what it raises is its failure."""
    started = time.monotonic()
    value, failure = None, ""
    try:
        value = unit.function(**unit.arguments)
    except GradauditError as error:
        failure = str(error)
    except Exception as error:  # A unit must not take the run with it.
        failure = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - started
    return Done(unit.key, value, failure, attempts, seconds, worker)
