"""Progress of a search on stderr: a live line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.status import Status
from rich.text import Text

from gradaudit.budget import Progress
from gradaudit.cli.terminal import PatientConsole, output
from gradaudit.cli.terminal import say as print_line
from gradaudit.report.text import duration, plain

# Without a terminal, at most one line in this many seconds.
INTERVAL_SECONDS = 10.0


def describe(progress: Progress) -> str:
    """One report as a line.

    Example:
        >>> describe(Progress("layer fc1: submatrices", 12_000, 3, 16, 4.2, 20.0))
        'layer fc1: submatrices, 12,000 tried, 3 of 16 found, 4 s, about 20 s left'
    """
    parts = [plain(progress.phase, 120)]
    if progress.tried:
        parts.append(f"{progress.tried:,} tried")
    if progress.wanted:
        parts.append(f"{progress.found:,} of {progress.wanted:,} found")
    # Whole seconds: more would only flicker.
    parts.append(duration(round(progress.elapsed_seconds)))
    if progress.seconds_left is not None:
        parts.append(f"about {duration(max(1, round(progress.seconds_left)))} left")
    return ", ".join(parts)


class ProgressDisplay:
    """A listener for `gradaudit.budget.Control` that shows what it is told.

    Args:
        console: Where to; on stderr.
        status: The live line, or None for a line now and then.
        silent: Whether to show nothing.
    """

    def __init__(
        self, console: PatientConsole, status: Status | None = None, silent: bool = False
    ) -> None:
        self._console = console
        self._status = status
        self._silent = silent
        self._next = time.monotonic() + INTERVAL_SECONDS

    def __call__(self, progress: Progress) -> None:
        """Show one report."""
        if self._silent:
            return
        if self._status is not None:
            self._status.update(Text(describe(progress)))
        elif (now := time.monotonic()) >= self._next:
            self._next = now + INTERVAL_SECONDS
            print_line(self._console, describe(progress))


@contextmanager
def progress_display(*, quiet: bool, machine: bool) -> Iterator[ProgressDisplay]:
    """Show progress while a search runs.

    Args:
        quiet: Show nothing at all.
        machine: The output is for a program: show nothing without a terminal.
    """
    console = output(errors=True)
    if quiet or (machine and not console.is_terminal):
        yield ProgressDisplay(console, silent=True)
    elif console.is_terminal and not console.is_dumb_terminal:
        with console.status(Text("starting")) as status:
            yield ProgressDisplay(console, status)
    else:
        yield ProgressDisplay(console)
