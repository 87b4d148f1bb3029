from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bulk.material import capture
from gradaudit.bulk import audit_many
from gradaudit.bulk.lock import only_run
from gradaudit.errors import InputError

HOLD = """\
import sys
from pathlib import Path
from gradaudit.bulk.lock import only_run
with only_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_run_is_refused_and_told_who_has_it(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    captures = capture(tmp_path / "captures", ["a.safetensors"])
    with only_run(out), pytest.raises(InputError) as refused:
        audit_many(captures, out)
    assert f"process {os.getpid()} on " in str(refused.value)
    assert not (out / "summary.json").exists()
    assert audit_many(captures, out).leaks == 1
    assert not (out / ".owner").exists()


def test_a_killed_run_holds_nothing(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=f"process {process.pid} on "), only_run(tmp_path):
        pass
    process.kill()
    process.communicate()
    with only_run(tmp_path):
        assert f"process {os.getpid()} " in (tmp_path / ".owner").read_text()
