"""How long a search may run, how it reports its progress, and how it is asked to stop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gradaudit.errors import GradauditError, InputError

# Estimates after a search may go on for this share of the time budget past its end, or for this
# many seconds if that is longer: what was found in the time is worth them.
GRACE_SHARE, GRACE_SECONDS = 0.1, 2.0


class StoppedError(GradauditError):
    """Work that has no part of a result to give was ended by its control; the text says why."""


@dataclass(frozen=True)
class Budget:
    """Limits of one audit; whichever is reached first ends the search with a partial result.

    Attributes:
        seconds: Wall-clock seconds, or None for no limit. Estimates of what the search left open
            may take a tenth more, or two seconds.
        submatrices: Row subsets that SPEAR's sampler may try, or None for no limit. The
            default is the paper's N (arXiv 2403.03945, section 6.2).
        memory: Bytes that an audit may take beside the update itself. A layer whose copies would
            take more is worked on in blocks; one that does not fit even so is refused. None: one of
            more than 2**26 weights is worked on in blocks, within what is available.

    Example:
        >>> Budget(seconds=60).submatrices
        2000000000
    """

    seconds: float | None = 600.0
    submatrices: int | None = 2_000_000_000
    memory: int | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "submatrices", "memory"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(
                    f"budget.{name}", repr(value), "a positive number", "pass None for no limit"
                )


@dataclass(frozen=True)
class Progress:
    """One report from a running search.

    Attributes:
        phase: What is being done, for a person.
        tried: Candidates tried so far (for SPEAR, submatrices).
        found: Directions found so far.
        wanted: Directions that complete the batch.
        elapsed_seconds: Since the audit began.
        seconds_left: Estimate of the time to completion, or None while unknown.
    """

    phase: str
    tried: int = 0
    found: int = 0
    wanted: int = 0
    elapsed_seconds: float = 0.0
    seconds_left: float | None = None


@dataclass
class Ceiling:
    """The most arithmetic that a search may do; whoever holds it may lower it while it runs."""

    value: float = math.inf


@dataclass
class Effort:
    """The arithmetic that searches did, in about floating-point operations.

    Unlike seconds, the same search counts the same on every machine.

    Attributes:
        spent: So far.
        ceiling: Above which a search stops.
    """

    spent: float = 0.0
    ceiling: Ceiling = field(default_factory=Ceiling)

    @property
    def exceeded(self) -> bool:
        """Whether more was spent than is allowed."""
        return self.spent > self.ceiling.value


@dataclass
class Control:
    """The running counterpart of a `Budget`: a clock, a stop flag and a progress listener.

    The clock is monotonic, so that a jump of the system's time neither ends nor prolongs a search.
    """

    budget: Budget = field(default_factory=Budget)
    listener: Callable[[Progress], None] | None = None
    _started: float = field(default_factory=time.monotonic)
    _stop: threading.Event = field(default_factory=threading.Event)
    _whole_seconds: float | None = None
    _hurried: threading.Event = field(default_factory=threading.Event)
    effort: Effort = field(default_factory=Effort)

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since this control was made."""
        return time.monotonic() - self._started

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked the search to stop."""
        return self._stop.is_set()

    @property
    def hurried(self) -> bool:
        """Whether the clock or an interruption has ended any part of the work.

        Another run may then find more or less, whatever the seed; the limit of submatrices is a
        count, and ends every run at the same place.

        Example:
            >>> control = Control(Budget(seconds=1e-9))
            >>> control.stop_reason(), control.hurried
            ('the time budget of 1e-09 seconds is used up', True)
        """
        return self._hurried.is_set()

    def interrupt(self) -> None:
        """Ask the search to stop at its next check; safe in signal handlers and other threads."""
        self._stop.set()

    def stop_reason(self, submatrices: int = 0) -> str | None:
        """Why the search must stop now, or None if it may go on."""
        if self.interrupted:
            self._hurried.set()
            return "interrupted"
        if self.budget.seconds is not None and self.elapsed_seconds >= self.budget.seconds:
            self._hurried.set()
            whole = self._whole_seconds
            if whole is not None:
                return f"this part's share of the time budget of {whole:g} seconds is used up"
            return f"the time budget of {self.budget.seconds:g} seconds is used up"
        if self.effort.exceeded:
            # When that was lowered is the clock's doing too.
            self._hurried.set()
            return "the arithmetic that it was allowed is used up"
        if self.budget.submatrices is not None and submatrices >= self.budget.submatrices:
            return f"the budget of {self.budget.submatrices:,} submatrices is used up"
        return None

    def check(self) -> None:
        """Go on, or end work that has no part of a result to give.

        Raises:
            StoppedError: The work must stop now.
        """
        reason = self.stop_reason()
        if reason is not None:
            raise StoppedError(reason)

    def overtime_reason(self) -> str | None:
        """Why what only adds to a search's result must stop now, or None if it may go on.

        Such work may take longer than the budget, by a tenth of it or two seconds.
        """
        if self.interrupted:
            self._hurried.set()
            return "the search was interrupted"
        if self.effort.exceeded:
            self._hurried.set()
            return "the arithmetic was used up"
        seconds = self._whole_seconds or self.budget.seconds
        if seconds is None:
            return None
        until = seconds + max(GRACE_SHARE * seconds, GRACE_SECONDS)
        if self.elapsed_seconds < until:
            return None
        self._hurried.set()
        return "the time was up"

    def has_time(self, seconds: float) -> bool:
        """Whether so many seconds are left; what is left out for want of them counts as hurried.

        A budget that never had so many leaves it out in every run, and counts as no hurry.

        Example:
            >>> Control(Budget(seconds=60)).has_time(30), Control(Budget(seconds=1)).has_time(30)
            (True, False)
        """
        limit = self.budget.seconds
        if limit is None or limit - self.elapsed_seconds >= seconds:
            return True
        if limit >= seconds:
            self._hurried.set()
        return False

    def share(self, part: float) -> Control:
        """A control for a part of the time that is left, stopped and watched like this one.

        Args:
            part: From above 0 to 1, the whole.
        """
        if part >= 1.0 or self.budget.seconds is None:
            return self
        until = self.elapsed_seconds + part * max(self.budget.seconds - self.elapsed_seconds, 0.0)
        shared = replace(self.budget, seconds=max(until, 1e-9))
        whole = self._whole_seconds or self.budget.seconds
        return replace(self, budget=shared, _whole_seconds=whole)

    def fresh(self, budget: Budget) -> Control:
        """A control with a clock and limits of its own, stopped and watched like this one.

        What it spends is counted by itself, against the same ceiling.

        Example:
            >>> search = Control()
            >>> part = search.fresh(Budget(seconds=1))
            >>> search.interrupt()
            >>> part.interrupted
            True
        """
        effort = Effort(ceiling=self.effort.ceiling)
        return Control(budget, self.listener, _stop=self._stop, effort=effort)

    def report(
        self,
        phase: str,
        *,
        tried: int = 0,
        found: int = 0,
        wanted: int = 0,
        seconds_left: float | None = None,
    ) -> None:
        """Tell the listener, if any, how far the search is."""
        if self.listener is not None:
            self.listener(Progress(phase, tried, found, wanted, self.elapsed_seconds, seconds_left))
