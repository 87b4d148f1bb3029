"""A worker process from the inside: it does what it is sent until nobody is left to send."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType

from gradaudit.budget import Budget, Control
from gradaudit.engine.doing import described, do
from gradaudit.engine.unit import Done, Unit


@dataclass(frozen=True)
class Task:
    """What a worker is sent: a unit, and how it is to be done.

    Attributes:
        number: Of all that were ever sent; what comes on stdin is about one of them.
        unit: What to do.
        attempts: How often it was begun, with this time.
        threads: Of torch.
        ceiling: Of its effort, for now.
    """

    number: int
    unit: Unit
    attempts: int
    threads: int
    ceiling: float


class _Current:
    """The task at work, the control of its unit, and the last ceiling that was told."""

    def __init__(self) -> None:
        self._number = -1
        self._control = Control(Budget(None, None))
        self._told = (-1, math.inf)
        self._lock = threading.Lock()

    def begin(self, task: Task) -> Control:
        """The control of a task's unit."""
        control = Control(Budget(None, None))
        with self._lock:
            # Word of a task may come before the task, as they come on different ways.
            number, ceiling = self._told
            control.effort.ceiling.value = ceiling if number == task.number else task.ceiling
            self._control, self._number = control, task.number
        return control

    def tell(self, number: int, ceiling: float) -> None:
        """Hear the ceiling of a task, unless that is done."""
        with self._lock:
            self._told = (number, ceiling)
            if number == self._number:
                self._control.effort.ceiling.value = ceiling


def serve(descriptor: int) -> None:
    """Do units until the connection ends.

    Args:
        descriptor: Of a socket that tasks come in on, and what came of them goes out on. Before
            the first, the worker says that it is there.
    """
    # Ctrl-C reaches every process of a terminal; what becomes of the units is the parent's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    current = _Current()
    threading.Thread(target=_listen, args=(current,), daemon=True).start()
    connection = Connection(descriptor)
    connection.send(None)
    name = f"process {os.getpid()}"
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        except Exception as error:  # Whatever the import of a unit's module raises.
            connection.send(Done("", failure=f"it cannot be read by a worker: {described(error)}"))
            continue
        control = current.begin(task)
        done = do(task.unit, control, worker=name, attempts=task.attempts, threads=task.threads)
        try:
            connection.send(done)
        except OSError:  # Nobody is left to hear it.
            return
        except Exception as error:  # Whatever a value raises that cannot be sent.
            failure = f"its value cannot be sent: {described(error)}"
            connection.send(Done(done.key, None, failure, done.attempts, done.seconds, name))


def _leave(number: int, frame: FrameType | None) -> None:
    """Unwind, so that temporary files are removed."""
    sys.exit(128 + number)


def _listen(current: _Current) -> None:
    """Read ceilings from stdin, whose end comes when the parent ends, however it ends."""
    with open(0, "rb", closefd=False) as stdin:
        for line in stdin:
            number, ceiling = line.split()
            current.tell(int(number), float(ceiling))
    os._exit(1)
