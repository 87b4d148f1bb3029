"""Units one after another, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

from gradaudit.budget import Budget, Control
from gradaudit.engine.doing import do
from gradaudit.engine.engine import check_count, check_units, is_over
from gradaudit.engine.unit import Done, Unit


class InProcess:
    """The engine that needs nothing.

    Args:
        threads: Of torch, for each unit.

    Raises:
        InputError: `threads` is no such number.

    Example:
        >>> from gradaudit.theory import coupon_collector
        >>> units = [Unit("three", coupon_collector, {"batch_size": 3})]
        >>> with InProcess() as engine:
        ...     [(done.key, round(done.value, 3)) for done in engine.run(units, Control())]
        [('three', 5.5)]
    """

    name = "in-process"
    workers = 1

    def __init__(self, threads: int = 1) -> None:
        self._threads = check_count("threads", threads)

    def run(self, units: Sequence[Unit], control: Control) -> Iterator[Done]:
        """Do all units in their order; see `gradaudit.engine.Engine`.

        A unit that takes a control can be watched through this run's, unlike in other processes.
        """
        # Loaded by a unit it would have as many threads as there are cores.
        import torch  # noqa: F401, PLC0415 - engines are chosen before anybody waits for torch

        check_units(units)
        for unit in units:
            if is_over(control):
                return
            done = do(unit, control.fresh(Budget(None, None)), threads=self._threads)
            if is_over(control):
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
