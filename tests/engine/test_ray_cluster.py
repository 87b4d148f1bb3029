"""A cluster that the engine starts by itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from engine.checks import TESTS

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
