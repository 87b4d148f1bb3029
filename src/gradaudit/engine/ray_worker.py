"""What a worker of a Ray cluster does."""

from __future__ import annotations

import math
import os
import socket
import threading
from typing import Any

from gradaudit.budget import Budget, Control
from gradaudit.engine.doing import do
from gradaudit.engine.engine import TICK_SECONDS
from gradaudit.engine.unit import Done, Unit
from gradaudit.errors import require
from gradaudit.version import __version__


class Board:
    """An actor that holds the ceiling of effort, for units at work to look at."""

    def __init__(self) -> None:
        self._ceiling = math.inf

    def write(self, ceiling: float) -> None:
        """Put up another."""
        self._ceiling = ceiling

    def read(self) -> float:
        """The one that holds."""
        return self._ceiling


def work(unit: Unit, attempts: int, ceiling: float, board: Any, version: str) -> Done:
    """Do a unit in a worker of the cluster, which has one CPU and so one thread.

    Args:
        unit: What to do.
        attempts: How often it was begun, with this time.
        ceiling: Of its effort, for now.
        board: Where another ceiling may be seen; None where none will come.
        version: Of gradaudit, where the unit comes from.
    """
    name = f"{socket.gethostname()}, process {os.getpid()}"
    if version != __version__:
        failure = f"the worker has gradaudit {__version__}, and {version} is what asks"
        return Done(unit.key, None, failure, attempts, worker=name)
    control = Control(Budget(None, None))
    control.effort.ceiling.value = ceiling
    over = threading.Event()
    if board is not None and unit.limited:
        threading.Thread(target=_look, args=(board, control, over), daemon=True).start()
    try:
        return do(unit, control, worker=name, attempts=attempts)
    finally:
        over.set()


def _look(board: Any, control: Control, over: threading.Event) -> None:
    """Look at the board again and again while a unit is at work."""
    ray = require("ray", "ray")
    while not over.wait(TICK_SECONDS):
        try:
            ceiling = ray.get(board.read.remote())
        except ray.exceptions.RayError:
            # The board is gone with its node: the unit takes longer, and gives the same.
            return
        control.effort.ceiling.value = min(ceiling, control.effort.ceiling.value)
