"""An engine that is started when there is work for it, and not before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

from gradaudit.budget import Control
from gradaudit.engine.engine import Engine
from gradaudit.engine.unit import Done, Unit


class WhenNeeded:
    """Another engine, entered with its first unit: a run that has nothing left starts no cluster.

    Args:
        engine: Not entered yet.

    Example:
        >>> from gradaudit.engine.in_process import InProcess
        >>> with WhenNeeded(InProcess()) as engine:
        ...     list(engine.run([], Control()))
        []
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._entered = False

    @property
    def name(self) -> str:
        """See `gradaudit.engine.Engine`."""
        return self._engine.name

    @property
    def workers(self) -> int:
        """See `gradaudit.engine.Engine`."""
        return self._engine.workers

    def run(self, units: Sequence[Unit], control: Control) -> Iterator[Done]:
        """Do all units; see `gradaudit.engine.Engine`."""
        if not units:
            return
        if not self._entered:
            self._engine.__enter__()
            self._entered = True
        yield from self._engine.run(units, control)

    def __enter__(self) -> WhenNeeded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the engine, if it was started."""
        if self._entered:
            self._engine.__exit__(kind, error, trace)
