"""A worker process from the inside: it does what it is sent until nobody is left to send."""

from __future__ import annotations

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
    """The task at work, and the control of its unit."""

    def __init__(self) -> None:
        self.number = -1
        self.control = Control(Budget(None, None))

    def begin(self, task: Task) -> Control:
        control = Control(Budget(None, None))
        control.effort.ceiling.value = task.ceiling
        self.control, self.number = control, task.number
        return control


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
            control = current.control
            # One that came late is about a unit that is done.
            if int(number) == current.number:
                control.effort.ceiling.value = float(ceiling)
    os._exit(1)
