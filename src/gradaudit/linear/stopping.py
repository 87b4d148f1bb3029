"""Long work that is asked now and then whether it may go on."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
# Threads that nobody waits for any more.
_abandoned: list[threading.Thread] = []
# Called between parts of the work; what it raises ends the work.
Check: TypeAlias = Callable[[], object]
# While a part cannot be interrupted itself, the question is asked so often.
ASK_SECONDS = 0.1


def go_on() -> None:
    """The check that ends nothing."""


def waiting(work: Callable[[], T], check: Check, tensor: Tensor) -> T:
    """Do what is a single call for minutes, asking meanwhile whether it may go on.

    What is given up computes on, unseen, until it is done: LAPACK cannot be interrupted, and a
    process that ends meanwhile waits for it. A GPU is not waited for: there the
    same takes seconds.

    Args:
        work: Gives the result; free of effects.
        check: The question.
        tensor: What the work is on.

    Example:
        >>> waiting(lambda: 3, go_on, torch.ones(1))
        3
    """
    if check is go_on or tensor.device.type != "cpu":
        return work()
    threads = torch.get_num_threads()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        # New threads compute with as many as the machine has, and so in other last bits.
        torch.set_num_threads(threads)
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(ASK_SECONDS)
            if thread.is_alive():
                check()
    except BaseException:
        _abandoned.append(thread)
        raise
    if errors:
        raise errors[0]
    return results[0]


@atexit.register
def _let_end() -> None:
    """Wait: a thread that is in the middle of C++ when the interpreter goes aborts the process."""
    for thread in _abandoned:
        thread.join()
