"""Units in several processes of this machine."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from types import TracebackType

from gradaudit.budget import Control
from gradaudit.engine.cores import usable_cores
from gradaudit.engine.engine import MAX_ATTEMPTS, TICK_SECONDS, check_count, check_units, is_over
from gradaudit.engine.local_worker import DeadWorkerError, LocalWorker
from gradaudit.engine.unit import Done, Unit
from gradaudit.errors import GradauditError, InputError


class Processes:
    """Workers that are processes of their own, started when there is work and kept for more.

    A worker that dies is noticed at once and replaced, and its unit begun again. All end within a
    second or so when the run is interrupted, and by themselves when this process ends, even if it
    is killed.

    Args:
        workers: How many; None for as many as there are cores for.
        threads: Of torch, for each unit. With more than one, workers times threads must not be
            more than the cores that this process may use: they would wait for each other.

    Raises:
        InputError: A number is out of range, or the system is none of POSIX.

    Example:
        >>> from gradaudit.theory import coupon_collector
        >>> units = [Unit(str(b), coupon_collector, {"batch_size": b}) for b in (2, 3)]
        >>> with Processes(workers=1) as engine:
        ...     [(done.key, round(done.value, 3)) for done in engine.run(units, Control())]
        [('2', 3.0), ('3', 5.5)]
    """

    name = "processes"

    def __init__(self, workers: int | None = None, threads: int = 1) -> None:
        if sys.platform == "win32":
            raise InputError("engine", "processes on Windows", "in-process or ray there")
        cores = usable_cores()
        check_count("threads", threads)
        if workers is None:
            workers = max(cores // threads, 1)
        self.workers = check_count("workers", workers)
        if threads > 1 and workers * threads > cores:
            raise InputError(
                "threads",
                f"{threads} for each of {workers} workers",
                f"no more in all than the {cores} cores there are to use",
            )
        self._threads = threads
        self._staff: list[LocalWorker] = []

    def run(self, units: Sequence[Unit], control: Control) -> Iterator[Done]:
        """Do all units; see `gradaudit.engine.Engine`."""
        check_units(units)
        waiting = deque((unit, 1) for unit in units)
        stillborn = 0
        try:
            while not is_over(control):
                ceiling = control.effort.ceiling.value
                done = self._hand_out(waiting, ceiling)
                if not (done or waiting or self._busy()):
                    return
                ready = set(wait([w.connection for w in self._staff], 0 if done else TICK_SECONDS))
                for worker in [w for w in self._staff if w.connection in ready]:
                    try:
                        said = worker.receive()
                    except DeadWorkerError as death:
                        self._staff.remove(worker)
                        worker.end()
                        stillborn = 0 if worker.ready else stillborn + 1
                        if stillborn == MAX_ATTEMPTS:
                            raise GradauditError(
                                f"no worker process can be started ({death})"
                            ) from death
                        done += _bury(worker, str(death), waiting)
                    else:
                        done += [] if said is None else [said]
                # Before the caller takes its time over what is done.
                done += self._hand_out(waiting, ceiling)
                for each in done:
                    if is_over(control):
                        return
                    yield each
        finally:
            self._dismiss(self._busy())

    def _busy(self) -> list[LocalWorker]:
        return [worker for worker in self._staff if worker.unit is not None]

    def _hand_out(self, waiting: deque[tuple[Unit, int]], ceiling: float) -> list[Done]:
        """Give waiting units to idle workers, of which there are made to be enough.

        Args:
            waiting: Units, and how often each will have been begun.
            ceiling: Of each unit's effort, which those at work are told too.

        Returns:
            Units that no worker can be given.
        """
        failed = []
        while len(self._staff) < min(self.workers, len(self._busy()) + len(waiting)):
            self._staff.append(LocalWorker(self._threads))
        for worker in self._staff:
            worker.tell(ceiling)
            while waiting and worker.ready and worker.unit is None:
                unit, attempts = waiting.popleft()
                try:
                    unfit = worker.give(unit, attempts, ceiling)
                except DeadWorkerError:
                    # It died idle; `receive` will find out.
                    waiting.appendleft((unit, attempts))
                    break
                failed += [] if unfit is None else [unfit]
        return failed

    def _dismiss(self, workers: Sequence[LocalWorker]) -> None:
        for worker in workers:
            worker.ask_to_end()
        for worker in workers:
            worker.end()
            self._staff.remove(worker)

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all workers."""
        self._dismiss(list(self._staff))


def _bury(worker: LocalWorker, death: str, waiting: deque[tuple[Unit, int]]) -> list[Done]:
    """Put a dead worker's unit back, unless it was its last attempt: then it has failed."""
    if worker.unit is None:
        return []
    if worker.attempts < MAX_ATTEMPTS:
        waiting.appendleft((worker.unit, worker.attempts + 1))
        return []
    failure = f"its worker died {worker.attempts} times ({death})"
    name = f"process {worker.pid}"
    return [Done(worker.unit.key, None, failure, worker.attempts, worker=name)]
