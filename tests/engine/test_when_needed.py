from __future__ import annotations

import pytest

from gradaudit.budget import Control
from gradaudit.engine import InProcess, Unit, WhenNeeded
from gradaudit.theory import coupon_collector


class Counted(InProcess):
    """An engine that counts how often it was started and ended."""

    def __init__(self):
        super().__init__()
        self.started = self.ended = 0

    def __enter__(self):
        self.started += 1
        return super().__enter__()

    def __exit__(self, *error):
        self.ended += 1
        super().__exit__(*error)


def units(*sizes):
    return [Unit(str(size), coupon_collector, {"batch_size": size}) for size in sizes]


def test_nothing_is_started_without_work():
    engine = Counted()
    with WhenNeeded(engine) as place:
        assert list(place.run([], Control())) == []
    assert (engine.started, engine.ended) == (0, 0)


def test_it_is_started_once_and_ended():
    engine = Counted()
    with WhenNeeded(engine) as place:
        assert (place.name, place.workers) == ("in-process", 1)
        first = [done.value for done in place.run(units(1, 2), Control())]
        second = [done.value for done in place.run(units(3), Control())]
        assert (engine.started, engine.ended) == (1, 0)
    assert [*first, *second] == [1.0, 3.0, 5.5]
    assert (engine.started, engine.ended) == (1, 1)


def test_it_is_ended_after_an_error():
    def interrupted(engine):
        with WhenNeeded(engine) as place:
            list(place.run(units(1), Control()))
            raise ZeroDivisionError

    engine = Counted()
    with pytest.raises(ZeroDivisionError):
        interrupted(engine)
    assert engine.ended == 1
