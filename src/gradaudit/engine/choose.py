"""Engines by name."""

from __future__ import annotations

from gradaudit.engine.engine import Engine
from gradaudit.engine.in_process import InProcess
from gradaudit.engine.processes import Processes
from gradaudit.engine.ray_cluster import Ray
from gradaudit.errors import InputError

ENGINES = ("in-process", "processes", "ray")


def open_engine(
    name: str | None = None, workers: int | None = None, address: str | None = None
) -> Engine:
    """The engine of a name, to be entered.

    Args:
        name: One of `ENGINES`; None for ``"ray"`` where an address is given, for ``"processes"``
            where `workers` is more than 1, and for ``"in-process"`` otherwise.
        workers: Units at a time; None for as many as there are cores, or CPUs in the cluster.
        address: Of a Ray cluster: ``host:port``, or ``"auto"`` for the one of this machine; None
            starts one on this machine.

    Raises:
        InputError: There is no such engine, or it does not take what is given.
        MissingExtraError: Ray is not installed.

    Example:
        >>> with open_engine("processes", workers=2) as engine:
        ...     engine.name, engine.workers
        ('processes', 2)
    """
    if name is None:
        many = workers is not None and workers != 1
        name = "ray" if address is not None else "processes" if many else "in-process"
    if name not in ENGINES:
        raise InputError("engine", repr(name), "one of " + ", ".join(ENGINES))
    if address is not None and name != "ray":
        raise InputError(
            "address", f"{address!r} with the engine {name}", "one with the engine ray"
        )
    if name == "ray":
        return Ray(address, workers)
    if name == "processes":
        return Processes(workers)
    if workers not in (None, 1):
        raise InputError(
            "workers", f"{workers!r} in one process", "1", "pass engine='processes' or 'ray'"
        )
    return InProcess()
