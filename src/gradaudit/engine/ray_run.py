"""The units of one run on a Ray cluster: those waiting, those at work, and what came of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

from gradaudit.engine.doing import one_line
from gradaudit.engine.engine import MAX_ATTEMPTS
from gradaudit.engine.ray_worker import Board, work
from gradaudit.engine.unit import Done, Unit
from gradaudit.version import __version__

# Tasks that were cancelled are waited for so long.
PATIENCE_SECONDS = 1.0


class RayRun:
    """Units under way.

    Args:
        ray: The module, connected.
        units: What to do.
    """

    def __init__(self, ray: Any, units: Sequence[Unit]) -> None:
        self._ray = ray
        # Attempts are counted here, where a unit that kills its workers is given up.
        self._task = ray.remote(num_cpus=1, max_retries=0)(work)
        self._waiting = deque((unit, 1) for unit in units)
        self._running: dict[Any, tuple[Unit, int]] = {}
        limited = any(unit.limited for unit in units)
        self._board = ray.remote(num_cpus=0)(Board).remote() if limited else None
        self._told = math.inf

    @property
    def unfinished(self) -> bool:
        """Whether there is anything left to do or to wait for."""
        return bool(self._waiting or self._running)

    def submit(self, most: int, ceiling: float) -> list[Done]:
        """Put waiting units to work.

        Args:
            most: How many may be at work.
            ceiling: Of each unit's effort, which those at work are told too.

        Returns:
            Units that cannot be sent.
        """
        if self._board is not None and ceiling != self._told:
            self._board.write.remote(ceiling)
            self._told = ceiling
        failed = []
        while self._waiting and len(self._running) < most:
            unit, attempts = self._waiting.popleft()
            try:
                reference = self._task.remote(unit, attempts, ceiling, self._board, __version__)
                self._running[reference] = (unit, attempts)
            except Exception as error:  # Whatever an argument raises that cannot be sent.
                failure = f"it cannot be sent to a worker: {brief(error)}"
                failed.append(Done(unit.key, failure=failure))
        return failed

    def collect(self, seconds: float) -> list[Done]:
        """What has ended; waits for the first so many seconds at most."""
        running = list(self._running)
        if not running:
            return []
        self._ray.wait(running, num_returns=1, timeout=seconds)
        ready, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
        done = []
        for reference in ready:
            unit, attempts = self._running.pop(reference)
            came = self._outcome(reference, unit, attempts)
            if came is None:
                self._waiting.appendleft((unit, attempts + 1))
            else:
                done.append(came)
        return done

    def end(self) -> None:
        """Give up what is under way."""
        running = list(self._running)
        for reference in running:
            self._ray.cancel(reference, force=True)
        if running:
            self._ray.wait(running, num_returns=len(running), timeout=PATIENCE_SECONDS)
        if self._board is not None:
            self._ray.kill(self._board)

    def _outcome(self, reference: Any, unit: Unit, attempts: int) -> Done | None:
        """What came of a unit; None if its worker died, and it is to be begun again."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:
            # `do` raises nothing: the worker could not read the unit, or not send the value.
            failure = f"a worker cannot do it: {brief(error.cause)}"
            return Done(unit.key, None, failure, attempts)
        except errors.RayError as error:
            if attempts < MAX_ATTEMPTS:
                return None
            how = type(error).__name__
            return Done(unit.key, None, f"its worker died {attempts} times ({how})", attempts)


def brief(error: BaseException) -> str:
    """What Ray tells in pages: an exception's first line, or its last, where that is the cause."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    cause = lines[-1] if "Traceback" in str(error) else f"{type(error).__name__}: {lines[0]}"
    return one_line(cause)
