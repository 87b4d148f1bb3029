"""Without an extra, whatever needs it says in one line which one to install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from distribution.extras import EXPECTED, wrong

SCRIPT = Path(__file__).with_name("extras.py")


def test_every_extra_is_named_by_what_needs_it():
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), "--blocked"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not wrong(found)
    assert list(found) == list(EXPECTED)


def test_what_is_no_such_line_is_told():
    good = dict.fromkeys(EXPECTED, "x is not installed; run: pip install 'gradaudit[report]'")
    assert "audit --report" not in " ".join(wrong(good))
    for bad in ("", "nothing: ", "Traceback\nx is not installed", "70: Error: internal error"):
        assert any(line.startswith("audit --report: ") for line in wrong({"audit --report": bad}))
