"""What the engines are given to do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from gradaudit.errors import InputError


def square(number):
    return number * number


def refuse(number):
    raise InputError("number", repr(number), "another")


def break_down():
    raise RuntimeError("first line\nsecond line \x1b[31m")


def unreadable():
    return lambda: None


def threads():
    # Late, as most of this needs no torch, and a worker is there in a moment without.
    import torch

    return torch.get_num_threads()


def die(folder, times):
    """Kill this very process the first so many times."""
    for attempt in range(times):
        marker = Path(folder) / str(attempt)
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def leave(code):
    os._exit(code)


def sleep(seconds, marker=None):
    if marker is not None:
        Path(marker).write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def wait_for_interruption(marker, control):
    """Say that it is at work, and work until it is told to stop."""
    Path(marker).write_text(str(os.getpid()))
    for _ in range(600):
        if control.interrupted:
            return "stopped"
        time.sleep(0.05)
    return "never stopped"


def lock():
    import threading

    return threading.Lock()
