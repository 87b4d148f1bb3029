"""A worker process from the outside: started, given units, watched and ended."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection

from gradaudit.engine.doing import described
from gradaudit.engine.unit import Done, Unit
from gradaudit.engine.worker import Task

# A worker that was asked to end is killed after this long.
PATIENCE_SECONDS = 1.0
# What math libraries read when they are loaded.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# The path first, and before any import: a module in the current folder must not come in.
COMMAND = """\
import sys
sys.path[:] = sys.argv[2:]
from gradaudit.engine.worker import serve
serve(int(sys.argv[1]))
"""


class DeadWorkerError(Exception):
    """A worker ended by itself; the text says how."""


class LocalWorker:
    """A process of its own, started afresh: nothing is shared with this one but a socket.

    A forked one would share locks of threads that it does not have, torch's among them; one that
    multiprocessing spawns would run the caller's main module again.

    Args:
        threads: Of each unit.

    Attributes:
        connection: On which `receive` waits.
        unit: What it is at work on, None while it is idle.
        attempts: How often that unit was begun.
        ready: Whether it is up.
    """

    def __init__(self, threads: int) -> None:
        self.unit: Unit | None = None
        self.attempts = 0
        self.ready = False
        self._threads = threads
        self._number, self._told = 0, math.inf
        ours, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
                [sys.executable, "-c", COMMAND, str(theirs.fileno()), *sys.path],
                # The parent's end of this pipe closes when the parent ends, even by SIGKILL.
                stdin=subprocess.PIPE,
                # What a unit prints is no part of the command's output.
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **dict.fromkeys(THREADS, str(threads))},
            )
        self.connection = Connection(ours.detach())

    def give(self, unit: Unit, attempts: int, ceiling: float) -> Done | None:
        """Send a unit; what came of it, if it cannot be sent.

        Args:
            unit: What to do.
            attempts: How often it was begun, with this time.
            ceiling: Of its effort, for now; see `tell`.

        Raises:
            DeadWorkerError: Nobody is there.
        """
        try:
            task = Task(self._number + 1, unit, attempts, self._threads, ceiling)
            self.connection.send(task)
        except OSError as error:
            raise DeadWorkerError(self.epitaph()) from error
        except Exception as error:  # Whatever an argument raises that cannot be sent.
            return Done(unit.key, failure=f"it cannot be sent to a worker: {described(error)}")
        self.unit, self.attempts, self._number, self._told = unit, attempts, task.number, ceiling
        return None

    def tell(self, ceiling: float) -> None:
        """Tell the unit at work what its effort may be from now on."""
        if self.unit is None or not self.unit.limited or ceiling == self._told:
            return
        self._told = ceiling
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        # If nobody is there to hear it, `receive` will find out.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._process.stdin.fileno(), f"{self._number} {ceiling!r}\n".encode())

    def receive(self) -> Done | None:
        """What came of the unit; None for a worker that says that it is up.

        Raises:
            DeadWorkerError: The worker has ended.
        """
        try:
            said = self.connection.recv()
        except (EOFError, OSError) as error:
            raise DeadWorkerError(self.epitaph()) from error
        except Exception as error:  # Whatever the import of a value's module raises.
            said = Done("", failure=f"its value cannot be read: {described(error)}")
        if not isinstance(said, Done):
            self.ready = True
            return None
        assert self.unit is not None  # noqa: S101 - it speaks when it is asked
        unit, self.unit = self.unit, None
        if said.key == unit.key:
            return said
        return Done(unit.key, None, said.failure, self.attempts, worker=f"process {self.pid}")

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def epitaph(self) -> str:
        """How it ended, such as ``signal 9``, with the last that it said."""
        try:
            code = self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._errors.seek(0)
        said = self._errors.read()[-4096:].decode(errors="replace").strip().splitlines()
        return f"{how}: {said[-1]}" if said else how

    def ask_to_end(self) -> None:
        """Let it clean up; `end` must follow."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Wait a little for its end, then kill it."""
        # Without a partner it ends by itself, even where it has not come to hear signals.
        self.connection.close()
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdin.close()
        self._errors.close()
