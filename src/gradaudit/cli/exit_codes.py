"""What the process's exit code says: the one place that decides and documents it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from gradaudit.evidence import Status


class ExitCode(IntEnum):
    """The exit codes of every verb; `meaning` is for the help and the documentation.

    Example:
        >>> int(ExitCode.LEAK), ExitCode.LEAK.meaning
        (1, 'A leak is proven, and --fail-on-leak was given.')
    """

    DONE = 0
    LEAK = 1
    BAD_INPUT = 2
    UNFINISHED = 3
    SAME_VERDICT = 4
    DIFFERENT = 5
    INTERNAL = 70
    ABORTED = 130

    @property
    def meaning(self) -> str:
        """One sentence for a person."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.DONE: "Done. It does not say that nothing leaks; the result does.",
    ExitCode.LEAK: "A leak is proven, and --fail-on-leak was given.",
    ExitCode.BAD_INPUT: "The input, an option or an installed package does not fit; "
    "one line on stderr says what to do.",
    ExitCode.UNFINISHED: "The search was interrupted or used up its budget; "
    "what it found is reported and written. rerun: so did either search, and the results differ or "
    "hold no certified record to compare.",
    ExitCode.SAME_VERDICT: "rerun: the same verdict, but not bit for bit; "
    "it says by how much the certified records differ, where there are any.",
    ExitCode.DIFFERENT: "rerun: a different result, and no search was cut short.",
    ExitCode.INTERNAL: "An error in gradaudit itself.",
    ExitCode.ABORTED: "Aborted at once by a second signal, or by Ctrl-C while nothing "
    "was searched; nothing is written.",
}

# How a search that ended early says so in a result's cause; see `gradaudit.budget.Control`.
_CUT_SHORT = ("interrupted", "is used up")


def exit_code(
    status: Status, cause: str, *, interrupted: bool = False, fail_on_leak: bool = False
) -> ExitCode:
    """Decide the exit code of an audit.

    A proven leak with `fail_on_leak` comes before everything else: a gate must close even when
    the budget ended before the last record was found.

    Args:
        status: The result's status.
        cause: The result's cause.
        interrupted: Whether somebody asked the search to stop.
        fail_on_leak: Whether a proven leak is a failure.

    Example:
        >>> exit_code(Status.PARTIAL, "The time budget is used up.").name
        'UNFINISHED'
        >>> exit_code(Status.RECOVERED, "All were found.", interrupted=True).name
        'DONE'
    """
    if status.leak_proven and fail_on_leak:
        return ExitCode.LEAK
    if status is Status.RECOVERED:
        # It was complete, whatever came after.
        return ExitCode.DONE
    cut_short = interrupted or any(words in cause.lower() for words in _CUT_SHORT)
    if status is Status.BUDGET_EXHAUSTED or cut_short:
        return ExitCode.UNFINISHED
    return ExitCode.DONE


def run_exit_code(
    outcomes: Iterable[tuple[str, str]], *, ended: bool = False, fail_on_leak: bool = False
) -> ExitCode:
    """Decide the exit code of a run over several updates.

    The gravest decides: a proven leak with `fail_on_leak`; a run that ended early; an update that
    failed by an error in gradaudit; one that could not be read, as a gate that was given it must
    not pass; none at all; a search that ended early.

    Args:
        outcomes: Status and cause of each update, and of what was no update.
        ended: Whether the run ended before all were audited.
        fail_on_leak: Whether a proven leak is a failure.

    Example:
        >>> run_exit_code([("recovered", ""), ("unreadable", "An empty file.")]).name
        'BAD_INPUT'
        >>> run_exit_code([("recovered", ""), ("not_an_update", "Text.")]).name
        'DONE'
    """
    known = {status.value for status in Status}
    outcomes = [pair for pair in outcomes if pair[0] != "not_an_update"]
    statuses = [status for status, _ in outcomes]
    if fail_on_leak and any(Status(s).leak_proven for s in statuses if s in known):
        return ExitCode.LEAK
    if ended:
        return ExitCode.UNFINISHED
    if "failed" in statuses:
        return ExitCode.INTERNAL
    if "unreadable" in statuses or not outcomes:
        return ExitCode.BAD_INPUT
    return max(
        (exit_code(Status(status), cause) for status, cause in outcomes), default=ExitCode.DONE
    )
