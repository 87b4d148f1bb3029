"""Processes that are ended while they write, and clocks that jump."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

import gradaudit as ga
from gradaudit.result import AuditResult

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="signals of this kind are those of POSIX"
)
SOURCE = Path(ga.__file__).parent

# SIGTERM in the midst of writing the file of a number, when its bytes are written but it has not
# taken its place.
IN_MIDST = """
import os, signal
fsync, seen = os.fsync, []
def ended(handle):
    fsync(handle)
    seen.append(handle)
    if len(seen) == {number}:
        os.kill(os.getpid(), signal.SIGTERM)
os.fsync = ended
"""


@pytest.mark.parametrize("number", [1, 3])
def test_sigterm_while_files_are_written(number, start, update, tmp_path):
    """The first is one of the result's two files, the third is the report."""
    words = ["audit", update, "--out", "o", "--report", "o/report.html"]
    process = start(*words, before=IN_MIDST.format(number=number))
    out, err = process.communicate(timeout=300)
    assert "Traceback" not in err
    pair = ["result.json", "result.safetensors"]
    there = sorted(path.name for path in (tmp_path / "o").iterdir())
    # While the search's own handler is there, a first SIGTERM asks for an end, and all is written.
    assert (process.returncode, there) in (
        (0, ["report.html", *pair]),
        (130, pair if number == 3 else []),
    ), (out, err)
    if there:
        assert AuditResult.load(tmp_path / "o" / "result.json").records_recovered == 3


def test_sigterm_while_libraries_are_imported(start, update, tmp_path):
    """Before anything is set up, the system's own way to end is good enough."""
    process = start("audit", update, "--out", "o", "--report", "o/report.html")
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode in (130, -signal.SIGTERM)
    assert not (tmp_path / "o").exists()


def test_a_clock_that_jumps(update, monkeypatch):
    """Back by a day and forth by a year, at each look: no budget and no duration depends on it."""
    now = [time.time()]

    def jumping() -> float:
        now[0] += 366 * 86_400 if int(now[0]) % 2 else -86_401
        return now[0]

    monkeypatch.setattr(time, "time", jumping)
    begun = time.monotonic()
    result = ga.audit(ga.load_update(update), budget=ga.Budget(seconds=100))
    assert result.records_recovered == 3
    assert all(0 <= seconds < 200 for seconds in result.search.seconds.values())
    assert result.search.elapsed_seconds <= time.monotonic() - begun


def test_only_stamps_look_at_the_clock():
    """What is measured or limited is so by clocks that only go forward."""
    looks = {
        path.relative_to(SOURCE).as_posix(): len(found)
        for path in SOURCE.rglob("*.py")
        if (found := re.findall(r"\btime\.time\(|datetime\.now\(|\butcnow\(", path.read_text()))
    }
    allowed = {"session/session.py", "experiments/machine.py", "bulk/row.py", "bulk/run.py"}
    assert set(looks) <= allowed
    assert "session/session.py" in looks
