"""Units on a Ray cluster: of this machine alone, or of many."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from gradaudit.budget import Control
from gradaudit.engine.doing import one_line
from gradaudit.engine.engine import TICK_SECONDS, check_count, check_units, is_over
from gradaudit.engine.ray_health import RayHealth, why_silent
from gradaudit.engine.ray_run import RayRun, brief
from gradaudit.engine.unit import Done, Unit
from gradaudit.errors import InputError, require

# Read when Ray is imported: nothing is told to its makers, and nothing of what Ray says of dead
# workers comes out on stdout, where a program reads results.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}


class Ray:
    """Workers of a Ray cluster, a CPU for each.

    Files that units name must be found under the same absolute path on every machine, and
    gradaudit must be installed there in the same version. A process that is connected to a cluster
    already, such as one that Flower simulates in, uses that one and leaves it as it is.

    Args:
        address: ``host:port`` of a cluster's head, or ``"auto"`` for the cluster that this machine
            is part of; None starts one on this machine, and ends it.
        workers: Units at a time at most; None for as many as the cluster has CPUs, or this machine.

    Raises:
        InputError: `workers` is no such number.
        MissingExtraError: Ray is not installed.
    """

    name = "ray"

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self._ray: Any = require("ray", "ray")
        self._most = None if workers is None else check_count("workers", workers)
        self._address = address
        self._ours = False

    @property
    def workers(self) -> int:
        """How many units are done at a time, as the cluster is now."""
        cpus = int(self._ray.cluster_resources().get("CPU", 0)) if self._ray.is_initialized() else 0
        return self._at_a_time(cpus)

    def _at_a_time(self, cpus: int) -> int:
        return max(1, cpus if self._most is None else self._most)

    def run(self, units: Sequence[Unit], control: Control) -> Iterator[Done]:
        """Do all units; see `gradaudit.engine.Engine`.

        Raises:
            GradauditError: The cluster's head is gone, or all its CPUs.
        """
        check_units(units)
        health, run = RayHealth(self._ray), RayRun(self._ray, units)
        try:
            while not is_over(control) and run.unfinished:
                ceiling, most = control.effort.ceiling.value, self._at_a_time(health.cpus())
                done = run.submit(most, ceiling)
                done += run.collect(0 if done else TICK_SECONDS)
                # Before the caller takes its time over what is done.
                done += run.submit(most, ceiling)
                for each in done:
                    if is_over(control):
                        return
                    yield each
        finally:
            # Without its head a cluster takes no orders, and waits instead.
            if self._ray.is_initialized() and health.has_head:
                run.end()

    def __enter__(self) -> Ray:
        """Connect, or start a cluster.

        Raises:
            InputError: There is no cluster at the address, or it cannot do anything.
        """
        ray = self._ray
        if ray.is_initialized():
            if self._address is not None:
                raise InputError(
                    "address",
                    f"{self._address!r} in a process that is connected to a cluster already",
                    "no address, which takes that cluster",
                )
            return self
        if self._address not in (None, "auto"):
            _check_answers(str(self._address))
        local = {"num_cpus": self._most, "include_dashboard": False} if not self._address else {}
        with _handlers_kept():
            try:
                ray.init(
                    address=self._address or "local",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **local,
                )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise _no_cluster(self._address, _why(error)) from error
        self._ours = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the cluster; one that was started for this ends."""
        if self._ours:
            with _handlers_kept():
                self._ray.shutdown()
            self._ours = False


def _check_answers(address: str) -> None:
    """Check that somebody listens at the address, for which Ray itself would wait for ever.

    Raises:
        InputError: Nobody does.
    """
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise InputError("address", repr(address), "host:port, or auto")
    why = why_silent(address)
    if why:
        raise _no_cluster(address, why)


def _why(error: BaseException) -> str:
    """What kept Ray from connecting."""
    if "AuthenticationError" in str(error.__cause__):
        return "a cluster that wants a token; set RAY_AUTH_MODE and RAY_AUTH_TOKEN as it has them"
    return brief(error)


def _no_cluster(address: str | None, why: str) -> InputError:
    return InputError(
        "address",
        f"{address!r}: {one_line(why)}",
        "the address of a Ray cluster that runs",
        "start one with 'ray start --head', or give no address",
    )


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Put back the handler of SIGTERM, which Ray takes for itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
