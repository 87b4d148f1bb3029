from __future__ import annotations

import pytest

from gradaudit.budget import Budget, Control
from gradaudit.cli.exit_codes import ExitCode, exit_code
from gradaudit.evidence import Status


def causes() -> tuple[str, ...]:
    """How a search that was cut short says so."""
    interrupted = Control()
    interrupted.interrupt()
    timed = Control(Budget(seconds=1e-9))
    counted = Control(Budget(submatrices=1))
    found = (interrupted.stop_reason(), timed.stop_reason(), counted.stop_reason(1))
    assert all(found)
    return tuple(f"Stopped: {cause}." for cause in found if cause)


@pytest.mark.parametrize("cause", causes())
@pytest.mark.parametrize("status", [Status.PARTIAL, Status.NOT_RECOVERED])
def test_a_search_cut_short_is_unfinished(status, cause):
    assert exit_code(status, cause) is ExitCode.UNFINISHED


@pytest.mark.parametrize("status", list(Status))
def test_a_gate_fails_on_a_proven_leak_before_all_else(status):
    code = exit_code(status, causes()[0], interrupted=True, fail_on_leak=True)
    assert (code is ExitCode.LEAK) == status.leak_proven


def test_what_ran_to_its_end_is_done():
    for status in set(Status) - {Status.BUDGET_EXHAUSTED}:
        assert exit_code(status, "The whole search was made.") is ExitCode.DONE
    assert exit_code(Status.BUDGET_EXHAUSTED, "Enough.") is ExitCode.UNFINISHED
    assert exit_code(Status.PARTIAL, "Something.", interrupted=True) is ExitCode.UNFINISHED
    # A signal that comes when all is found changes nothing.
    assert exit_code(Status.RECOVERED, "All.", interrupted=True) is ExitCode.DONE


def test_codes_are_told_apart_and_explained():
    assert sorted(ExitCode) == [0, 1, 2, 3, 4, 5, 70, 130]
    assert len({code.meaning for code in ExitCode}) == len(ExitCode)
