"""What tests of engines ask again and again."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from engine import material
from gradaudit.budget import Control
from gradaudit.engine import Unit

TESTS = Path(__file__).parents[1]
SQUARES = [Unit(f"square of {n}", material.square, {"number": n}) for n in range(5)]


def run(engine, units, control=None):
    done = list(engine.run(units, control or Control()))
    found = {each.key: each for each in done}
    assert len(found) == len(done)
    return found


def is_alive(pid):
    """Whether a process runs; one that has ended and was not waited for does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until(condition, commands=(), seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        assert all(command.poll() is None for command in commands), "a command has ended"
        time.sleep(0.1)
