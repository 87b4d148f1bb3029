"""What holds for every engine."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from engine import material
from engine.checks import SQUARES, is_alive, run, wait_until
from gradaudit.budget import Control
from gradaudit.engine import MAX_ATTEMPTS, Done, InProcess, Unit
from gradaudit.errors import InputError


def test_every_unit_is_done_once(engine):
    found = run(engine, SQUARES)
    assert {key: each.value for key, each in found.items()} == {
        f"square of {n}": n * n for n in range(5)
    }
    assert all(each.attempts == 1 and not each.failure for each in found.values())


def test_an_engine_can_be_used_again(engine):
    assert run(engine, []) == {}
    assert run(engine, SQUARES[3:])["square of 4"].value == 16


def test_what_a_unit_raises_is_its_failure_alone(engine):
    units = [
        Unit("refused", material.refuse, {"number": 3}),
        Unit("broken", material.break_down),
        *SQUARES,
    ]
    found = run(engine, units)
    assert found["refused"].failure == "number: found 3, expected another"
    assert found["broken"].failure == "RuntimeError: first line second line \\x1b[31m"
    assert found["refused"].value is None
    assert sum(each.value is not None for each in found.values()) == len(SQUARES)


def test_what_cannot_be_sent_is_a_failure(outside):
    units = [
        Unit("value", material.lock),
        Unit("argument", material.square, {"number": threading.Lock()}),
        *SQUARES,
    ]
    found = run(outside, units)
    for key in ("value", "argument"):
        assert "cannot" in found[key].failure
        assert "lock" in found[key].failure
        assert "\n" not in found[key].failure
    assert found["square of 4"].value == 16


def test_two_units_of_one_key_are_refused(engine):
    with pytest.raises(InputError, match="found two with the key 'square of 1'"):
        run(engine, [*SQUARES, SQUARES[1]])


def test_workers_have_one_thread(outside):
    found = run(outside, [Unit("threads", material.environment, {"name": "OMP_NUM_THREADS"})])
    assert found["threads"].value == "1"


def test_an_interrupted_run_gives_nothing_more(engine):
    control = Control()
    control.interrupt()
    assert run(engine, SQUARES, control) == {}


def test_an_interruption_reaches_what_is_under_way(engine, tmp_path):
    marker, control = tmp_path / "at work", Control()
    units = [Unit("long", material.wait_for_interruption, {"marker": str(marker)}, True), *SQUARES]

    def interrupt():
        wait_until(marker.exists)
        control.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    found = run(engine, units, control)
    thread.join()
    assert "long" not in found
    if not isinstance(engine, InProcess):
        wait_until(lambda: not is_alive(int(marker.read_text())), seconds=5)
    # The engine is as good as before.
    assert run(engine, SQUARES)["square of 2"].value == 4


def test_what_is_under_way_is_dropped_when_nobody_asks_for_more(outside, tmp_path):
    marker = tmp_path / "asleep"
    asleep = Unit("asleep", material.sleep, {"marker": str(marker), "seconds": 300})
    done = outside.run([asleep, SQUARES[2]], Control())
    assert next(done).value == 4
    wait_until(marker.exists)
    done.close()
    wait_until(lambda: not is_alive(int(marker.read_text())), seconds=5)


def test_a_killed_worker_s_unit_is_begun_again(outside, tmp_path):
    marker = tmp_path / "asleep"
    units = [Unit("asleep", material.sleep_once, {"marker": str(marker), "seconds": 300}), *SQUARES]

    def kill():
        wait_until(marker.exists)
        os.kill(int(marker.read_text()), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    started = time.monotonic()
    found = run(outside, units)
    thread.join()
    assert time.monotonic() - started < 200
    assert (found["asleep"].value, found["asleep"].attempts) == ("awake", 2)
    values = sorted(each.value for key, each in found.items() if key != "asleep")
    assert values == [0, 1, 4, 9, 16]


def test_a_unit_that_kills_its_workers_is_given_up(outside, tmp_path):
    deadly = Unit("deadly", material.die, {"folder": str(tmp_path), "times": 99})
    found = run(outside, [deadly, *SQUARES])
    assert found["deadly"].failure.startswith(f"its worker died {MAX_ATTEMPTS} times (")
    assert found["deadly"].attempts == MAX_ATTEMPTS == len(list(tmp_path.iterdir()))
    assert found["square of 4"].value == 16


def test_a_ceiling_reaches_what_is_under_way_and_what_comes_after(outside):
    control = Control()
    names = ("under way", "later", "last")
    waiting = [Unit(n, material.wait_for_ceiling, {}, True, limited=True) for n in names]
    found = {}
    for done in outside.run([*SQUARES[:1], *waiting], control):
        found[done.key] = done.value
        control.effort.ceiling.value = 0.1
    assert found == {"square of 0": 0, **dict.fromkeys(names, 0.1)}


def test_one_process_is_given_one_thread_of_torch():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        unit = [Unit("threads", material.torch_threads)]
        assert run(InProcess(), unit)["threads"].value == 1
        assert run(InProcess(threads=2), unit)["threads"].value == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_one_process_lets_units_report(tmp_path):
    heard = []
    unit = Unit("reports", reports, controlled=True)
    done = run(InProcess(), [unit], Control(listener=heard.append))
    assert isinstance(done["reports"], Done)
    assert [progress.phase for progress in heard] == ["half way"]


def reports(control):
    control.report("half way")
