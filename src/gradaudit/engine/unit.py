"""Work that can be done anywhere, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Unit:
    """A piece of work that depends on nothing but its arguments.

    Attributes:
        key: Its name, of no other unit in the run.
        function: A function of a module, so that another process finds it by name.
        arguments: Its keyword arguments; small and plain values: paths rather than tensors.
        controlled: Whether the function takes, as ``control``, a `gradaudit.budget.Control`
            without limits, which is interrupted when the run is. What it returns then is dropped.
        limited: Whether it is also told, while it is at work, when the run's control gets another
            ceiling of effort.
    """

    key: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    controlled: bool = False
    limited: bool = False


@dataclass(frozen=True)
class Done:
    """What came of a unit.

    Attributes:
        key: The unit's.
        value: What its function returned, a small and plain value too; None where it failed.
        failure: Why there is no value, in one line, or "".
        attempts: How often it was begun; more than once where workers died.
        seconds: By the clock, of the last attempt.
        worker: Which process did it, for a person.
    """

    key: str
    value: Any = None
    failure: str = ""
    attempts: int = 1
    seconds: float = 0.0
    worker: str = ""
