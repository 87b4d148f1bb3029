from __future__ import annotations

import threading
import time

import pytest

from gradaudit import budget
from gradaudit.budget import Budget, Control, Progress
from gradaudit.errors import InputError


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""

    class Clock:
        now = 100.0

        def monotonic(self) -> float:
            return self.now

    made = Clock()
    monkeypatch.setattr(budget.time, "monotonic", made.monotonic)
    return made


def control(clock, limits, listener=None) -> Control:
    return Control(limits, listener, clock.now)


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("name", ["seconds", "submatrices"])
def test_limits_are_positive(name, value):
    with pytest.raises(InputError, match=f"budget.{name}: found .* expected a positive number"):
        Budget(**{name: value})


def test_not_a_number_is_no_limit():
    with pytest.raises(InputError, match="found nan"):
        Budget(seconds=float("nan"))


def test_time_runs_out(clock):
    running = control(clock, Budget(seconds=10))
    assert running.stop_reason() is None
    clock.now += 9.9
    assert running.stop_reason() is None
    clock.now += 0.1
    assert running.stop_reason() == "the time budget of 10 seconds is used up"


def test_submatrices_run_out(clock):
    running = control(clock, Budget(submatrices=5000))
    assert running.stop_reason(4999) is None
    assert running.stop_reason(5000) == "the budget of 5,000 submatrices is used up"


def test_without_limits_only_an_interruption_stops(clock):
    running = control(clock, Budget(seconds=None, submatrices=None))
    clock.now += 1e9
    assert running.stop_reason(10**15) is None
    running.interrupt()
    assert running.interrupted
    assert running.stop_reason() == "interrupted"


def test_a_share_of_what_is_left(clock):
    running = control(clock, Budget(seconds=10))
    clock.now += 4
    part = running.share(0.5)
    clock.now += 2.9
    assert part.stop_reason() is None
    clock.now += 0.2
    assert part.stop_reason() == "this part's share of the time budget of 10 seconds is used up"
    assert running.stop_reason() is None
    assert running.share(1.0) is running
    assert control(clock, Budget(seconds=None)).share(0.5).stop_reason() is None


def test_a_share_of_nothing_left_stops_at_once(clock):
    running = control(clock, Budget(seconds=10))
    clock.now += 11
    assert running.share(0.5).stop_reason() is not None


def test_a_share_is_stopped_and_watched_like_the_whole(clock):
    seen: list[Progress] = []
    running = control(clock, Budget(seconds=10), seen.append)
    part = running.share(0.5)
    clock.now += 1
    part.report("working", tried=3, found=1, wanted=2, seconds_left=4.0)
    assert seen == [Progress("working", 3, 1, 2, 1.0, 4.0)]
    running.interrupt()
    assert part.stop_reason() == "interrupted"


def test_an_interruption_comes_from_another_thread():
    running = Control(Budget(seconds=60))
    thread = threading.Thread(target=running.interrupt)
    thread.start()
    thread.join()
    assert running.stop_reason() == "interrupted"


def test_the_clock_starts_when_the_control_is_made():
    running = Control(Budget(seconds=0.01))
    time.sleep(0.02)
    assert running.stop_reason() is not None
    running.report("nobody listens")


@pytest.mark.parametrize(("seconds", "grace"), [(5, 2.0), (600, 60.0)])
def test_what_follows_a_search_has_a_grace(seconds, grace, clock):
    running = control(clock, Budget(seconds=seconds))
    part = running.share(0.5)
    clock.now += seconds + grace - 0.1
    assert running.stop_reason() is not None
    assert running.overtime_reason() is part.overtime_reason() is None
    clock.now += 0.2
    assert running.overtime_reason() == part.overtime_reason() == "the time was up"
    running.interrupt()
    assert running.overtime_reason() == "the search was interrupted"
    assert control(clock, Budget(seconds=None)).overtime_reason() is None


def test_what_the_clock_or_a_person_ended_is_known_to_be_hurried():
    # A limit of submatrices is no hurry: it ends every run at the same place.
    counted = Control(Budget(seconds=60, submatrices=3))
    assert counted.stop_reason(3) is not None
    assert not counted.hurried
    shared = counted.share(1e-9)
    assert "share of the time budget" in shared.stop_reason()
    assert counted.hurried
    other = counted.fresh(Budget())
    assert not other.hurried
    other.interrupt()
    assert other.overtime_reason() is not None
    assert other.hurried


def test_what_is_left_out_for_want_of_time_is_hurried():
    never = Control(Budget(seconds=1))
    assert not never.has_time(30)
    assert not never.hurried
    late = Control(Budget(seconds=60), _started=time.monotonic() - 40)
    assert late.has_time(10)
    assert not late.hurried
    assert not late.has_time(30)
    assert late.hurried
