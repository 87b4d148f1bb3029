"""Ctrl-C and SIGTERM: the first asks the search to stop, the second ends the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from gradaudit.budget import Control
from gradaudit.cli.exit_codes import ExitCode

_NOTICE = b"\nStopping with what was found so far; once more to abort at once.\n"


def end_on_sigterm() -> None:
    """Make SIGTERM end this process as Ctrl-C does: with half-written files removed.

    By default it would end at once, and leave them. Outside the main thread, and where somebody
    has said what SIGTERM does, nothing is changed.

    Example:
        >>> before = signal.getsignal(signal.SIGTERM)
        >>> end_on_sigterm()
        >>> try:
        ...     signal.raise_signal(signal.SIGTERM)
        ... except KeyboardInterrupt:
        ...     print("cleaned up")
        cleaned up
        >>> _ = signal.signal(signal.SIGTERM, before)
    """

    def handle(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, handle)


@contextmanager
def stop_on_signals(control: Control) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into `Control.interrupt` while the context is open.

    A second signal raises `SystemExit` with the code of an aborted run, which cleans up and shows
    no traceback. The handlers before are restored. Outside the main thread, which alone gets
    signals, nothing is changed.

    Args:
        control: Of the running search.

    Example:
        >>> control = Control()
        >>> with stop_on_signals(control):
        ...     signal.raise_signal(signal.SIGTERM)
        >>> control.interrupted
        True
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if control.interrupted:
            raise SystemExit(int(ExitCode.ABORTED))
        control.interrupt()
        # Straight to the descriptor: a handler must not enter a stream that may be half written.
        if sys.__stderr__ is not None and sys.__stderr__.isatty():
            os.write(sys.__stderr__.fileno(), _NOTICE)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
