"""Doing one unit, in whatever process this is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gradaudit.budget import Control
from gradaudit.engine.unit import Done, Unit
from gradaudit.errors import GradauditError


def do(
    unit: Unit, control: Control, *, worker: str = "", attempts: int = 1, threads: int = 1
) -> Done:
    """Do a unit here and now; what it raises is its failure.

    Args:
        unit: What to do.
        control: For a unit that takes one.
        worker: Name of this process, for a person.
        attempts: How often it was begun, with this time.
        threads: Of torch. Sums depend on it in the last bit, and a search on every bit.

    Example:
        >>> from gradaudit.theory import coupon_collector
        >>> do(Unit("none", coupon_collector, {"batch_size": 0}), Control()).failure
        'batch_size: found 0, expected a whole number of at least 1'
    """
    started = time.monotonic()
    value, failure = None, ""
    arguments = dict(unit.arguments)
    if unit.controlled:
        arguments["control"] = control
    with _torch_threads(threads):
        try:
            value = unit.function(**arguments)
        except GradauditError as error:
            failure = str(error)
        except Exception as error:  # A unit must not take the run with it.
            failure = described(error)
    return Done(unit.key, value, failure, attempts, time.monotonic() - started, worker)


def described(error: BaseException) -> str:
    """An unexpected exception in one line.

    Example:
        >>> described(KeyError("a"))
        "KeyError: 'a'"
    """
    return one_line(f"{type(error).__name__}: {error}")


def one_line(text: str) -> str:
    """A text without line breaks and control characters, which a terminal would obey."""
    text = " ".join(text.split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@contextmanager
def _torch_threads(number: int) -> Iterator[None]:
    # A worker in which nothing has loaded torch so far has the number in its environment.
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
