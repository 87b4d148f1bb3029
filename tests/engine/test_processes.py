"""Worker processes: none is left behind, and none is waited for that cannot come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from engine import material
from engine.checks import SQUARES, TESTS, is_alive, run, wait_until
from gradaudit.engine import Processes, Unit, local_worker, usable_cores
from gradaudit.errors import GradauditError, InputError

# Without a guard, and in a main module that no worker may run again.
SCRIPT = """\
import sys
sys.path.insert(0, sys.argv[1])
from engine import material
from gradaudit.budget import Control
from gradaudit.cli.signals import stop_on_signals
from gradaudit.engine import Processes, Unit

units = [
    Unit(name, material.sleep, {"marker": f"{sys.argv[2]}/{name}", "seconds": 300})
    for name in ("first", "second")
]
control = Control()
with stop_on_signals(control), Processes(workers=2) as engine:
    print([done.key for done in engine.run(units, control)])
"""


@pytest.fixture
def sleepers(tmp_path):
    """A run of two units that sleep, in a session of its own; and the workers' process numbers."""
    command = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(TESTS), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    markers = [tmp_path / "first", tmp_path / "second"]
    with command:
        wait_until(lambda: all(marker.exists() for marker in markers), [command])
        yield command, [int(marker.read_text()) for marker in markers]


def test_workers_end_with_a_parent_that_is_killed(sleepers):
    command, workers = sleepers
    assert all(map(is_alive, workers))
    command.kill()
    wait_until(lambda: not any(map(is_alive, workers)), seconds=5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_of_a_terminal_s_processes_is_the_parent_s_to_hear(sleepers, number):
    command, workers = sleepers
    started = time.monotonic()
    if number == signal.SIGINT:
        # As Ctrl-C has it.
        os.killpg(command.pid, number)
    else:
        command.send_signal(number)
    assert command.communicate(timeout=20)[0] == "[]\n"
    assert command.returncode == 0
    assert time.monotonic() - started < 10
    assert not any(map(is_alive, workers))


def test_an_idle_worker_s_death_harms_nobody(tmp_path):
    with Processes(workers=1) as engine:
        marker = tmp_path / "there"
        run(engine, [Unit("there", material.sleep, {"marker": str(marker), "seconds": 0})])
        os.kill(int(marker.read_text()), signal.SIGKILL)
        found = run(engine, SQUARES)
    assert [each.value for each in found.values()] == [0, 1, 4, 9, 16]


def test_all_workers_end_with_the_context(tmp_path):
    marker = tmp_path / "there"
    with Processes(workers=1) as engine:
        run(engine, [Unit("there", material.sleep, {"marker": str(marker), "seconds": 0})])
        assert is_alive(int(marker.read_text()))
    assert not is_alive(int(marker.read_text()))


def test_workers_that_cannot_start_end_the_run(monkeypatch):
    monkeypatch.setattr(local_worker, "COMMAND", "raise SystemExit('no such thing')")
    with (
        Processes(workers=2) as engine,
        pytest.raises(GradauditError, match=r"can be started \(exit code 1: no such thing\)"),
    ):
        run(engine, SQUARES)


def test_a_worker_s_output_is_not_the_command_s(capfd):
    with Processes(workers=1) as engine:
        run(engine, [Unit("print", print, {"end": "hello"})])
    assert capfd.readouterr() == ("", "")


def test_a_worker_imports_nothing_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "socket.py").write_text("raise SystemExit('caught')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    with Processes(workers=1) as engine:
        assert run(engine, SQUARES[2:3])["square of 2"].value == 4


def test_no_more_threads_than_cores():
    cores = usable_cores()
    assert Processes().workers == cores
    with pytest.raises(InputError, match=f"threads: found 2 for each of {cores} workers"):
        Processes(workers=cores, threads=2)
    for wrong in (0, -1, True):
        with pytest.raises(InputError, match="whole number from 1 on"):
            Processes(workers=wrong)
