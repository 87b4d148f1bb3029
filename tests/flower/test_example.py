"""The example runs, and shows what it says, in Flower's own simulation."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from gradaudit import load_update

ROOT = Path(__file__).parents[2]
NEEDED = ("flwr", "ray", "skimage")


@pytest.mark.slow
def test_the_example(tmp_path):
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: gradaudit[flower,ray,data]")
    command = [sys.executable, str(ROOT / "examples" / "flower_audit.py")]
    command += ["--out", str(tmp_path / "captures")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for client in ("A", "B"):
        assert f"8 of 8 are client {client}'s own, exactly" in done.stdout
    assert "With the gate, the server received 0 updates." in done.stdout
    captured = sorted((tmp_path / "captures").iterdir())
    assert len(captured) == 2
    assert {load_update(path).step.learning_rate for path in captured} == {0.1}
