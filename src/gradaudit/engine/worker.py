"""A worker process from the inside: it does what it is sent until nobody is left to send."""

from __future__ import annotations

import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from types import FrameType

from gradaudit.budget import Budget, Control
from gradaudit.engine.doing import described, do
from gradaudit.engine.unit import Done, Unit


class Task:
    """What a worker is sent: a unit, and how it is to be done.

    Attributes:
        unit: What to do.
        attempts: How often it was begun, with this time.
        threads: Of torch.
    """

    def __init__(self, unit: Unit, attempts: int, threads: int) -> None:
        self.unit, self.attempts, self.threads = unit, attempts, threads


def serve(descriptor: int) -> None:
    """Do units until the connection ends.

    Args:
        descriptor: Of a socket that tasks come in on, and what came of them goes out on. Before
            the first, the worker says that it is there.
    """
    # Ctrl-C reaches every process of a terminal; what becomes of the units is the parent's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection = Connection(descriptor)
    connection.send(None)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        except Exception as error:  # Whatever the import of a unit's module raises.
            connection.send(Done("", failure=f"it cannot be read by a worker: {described(error)}"))
            continue
        control = Control(Budget(None, None))
        name = f"process {os.getpid()}"
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


def _end_with_parent() -> None:
    """Wait for the end of stdin, which comes when the parent ends, however it ends."""
    while os.read(0, 1):
        pass
    os._exit(1)
