"""A cluster that the engine starts by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from engine import material
from engine.checks import SQUARES, TESTS, is_alive, run, wait_until
from engine.clusters import NODES, joined
from gradaudit.engine import Unit

# In a process of its own: Ray keeps a process's settings from its first import on.
SCRIPT = """\
import signal, sys
sys.path.insert(0, sys.argv[1])
from engine import material
from gradaudit.budget import Control
from gradaudit.engine import Ray, Unit

before = signal.getsignal(signal.SIGTERM)
with Ray(workers=1) as engine:
    assert signal.getsignal(signal.SIGTERM) is before
    units = [
        Unit("square", material.square, {"number": 7}),
        Unit("dies", material.die, {"folder": sys.argv[2], "times": 1}),
    ]
    found = {done.key: (done.value, done.attempts) for done in engine.run(units, Control())}
    print(engine.workers, sorted(found.items()))
"""


@pytest.mark.slow
def test_it_starts_works_in_silence_and_ends(tmp_path):
    pytest.importorskip("ray", reason="needs gradaudit[ray]")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(TESTS), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    # What Ray says of dead workers would be among a program's JSON.
    assert ran.stdout == "1 [('dies', ('alive', 2)), ('square', (49, 1))]\n", ran.stderr


@pytest.mark.slow
def test_units_of_a_node_that_dies_are_begun_again_on_others(cluster, ray_engine, tmp_path):
    markers, go = [tmp_path / f"at work {n}" for n in range(3)], tmp_path / "go"
    units = [
        Unit(m.name, material.wait_for_file, {"marker": str(m), "file": str(go)}, limited=True)
        for m in markers
    ]
    there, lost = [], []

    def lose(node):
        wait_until(lambda: all(marker.exists() for marker in markers))
        at_work = {int(marker.read_text()): marker.name for marker in markers}
        there.extend(node.die())
        lost.extend(name for pid, name in at_work.items() if pid in there)
        go.touch()

    with joined(cluster, tmp_path) as node:
        wait_until(lambda: ray_engine.workers == len(NODES) + 1)
        thread = threading.Thread(target=lose, args=(node,))
        thread.start()
        found = run(ray_engine, [*units, *SQUARES])
        thread.join()
    assert len(lost) == 1
    wait_until(lambda: not any(is_alive(pid) for pid in there), seconds=10)
    for unit in units:
        assert found[unit.key].value == "seen"
        assert found[unit.key].attempts == (2 if unit.key in lost else 1)
    assert found["square of 4"].value == 16
    # The dead node is missed, and the engine as good as before.
    wait_until(lambda: ray_engine.workers == len(NODES))
    assert run(ray_engine, SQUARES)["square of 3"].value == 9
