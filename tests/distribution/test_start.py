"""How long the package keeps somebody waiting who only imports it."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys, time
import gradaudit
print(time.process_time())
loaded = [name for name in ('torch', 'numpy', 'scipy', 'jaxtyping') if name in sys.modules]
print(loaded)
"""


@pytest.mark.parametrize("options", [(), ("-W", "error")])
def test_importing_takes_a_moment_and_loads_nothing_large(options):
    done = subprocess.run(
        [sys.executable, *options, "-c", CODE], capture_output=True, text=True, check=True
    )
    seconds, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    # Of this process alone, from its start; 0.05 here. Other processes do not count.
    assert float(seconds) < 2.0
