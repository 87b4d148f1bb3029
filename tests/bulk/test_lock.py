from __future__ import annotations

import os
import signal
import warnings

import pytest

from bulk.material import capture
from gradaudit.bulk import audit_many
from gradaudit.bulk.lock import only_run
from gradaudit.errors import InputError


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_a_killed_run_holds_nothing(tmp_path):
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Of threads that are not there in the child, which uses none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            with only_run(tmp_path):
                os.write(writing, b"held")
                signal.pause()
        finally:
            os._exit(1)
    assert os.read(reading, 4) == b"held"
    with pytest.raises(InputError, match=f"process {child} on "), only_run(tmp_path):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    with only_run(tmp_path):
        assert f"process {os.getpid()} " in (tmp_path / ".owner").read_text()
