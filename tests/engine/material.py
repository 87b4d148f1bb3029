"""What the engines are given to do: without torch, which a new worker takes seconds to import."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from pathlib import Path

from gradaudit.errors import InputError


def square(number):
    return number * number


def refuse(number):
    raise InputError("number", repr(number), "another")


def break_down():
    raise RuntimeError("first line\nsecond line \x1b[31m")


def lock():
    """What cannot go from one process to another."""
    return threading.Lock()


def environment(name):
    return os.environ.get(name)


def torch_threads():
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


def sleep(marker, seconds):
    """Say which process sleeps, and sleep."""
    mark(marker)
    time.sleep(seconds)
    return "slept"


def sleep_once(marker, seconds):
    """Sleep long the first time only."""
    return "awake" if Path(marker).exists() else sleep(marker, seconds)


def wait_for_file(marker, file):
    """Say that it is at work, and work until there is a file."""
    mark(marker)
    for _ in range(1200):
        if Path(file).exists():
            return "seen"
        time.sleep(0.05)
    return "never seen"


def wait_for_interruption(marker, control):
    """Say that it is at work, and work until it is told to stop."""
    mark(marker)
    for _ in range(600):
        if control.interrupted:
            Path(marker).with_suffix(".heard").touch()
            return "stopped"
        time.sleep(0.05)
    return "never stopped"


def wait_for_ceiling(control):
    """Work until it is told how much it may do."""
    for _ in range(1200):
        if control.effort.ceiling.value < math.inf:
            return control.effort.ceiling.value
        time.sleep(0.05)
    return None


def mark(marker):
    temporary = Path(marker).with_suffix(".new")
    temporary.write_text(str(os.getpid()))
    temporary.rename(marker)
