"""A run that is killed, at every moment at which it touches a file, and what the next one finds."""

from __future__ import annotations

import os
import signal
import warnings
from itertools import count
from pathlib import Path

import pytest

from bulk.material import capture, findings
from gradaudit.bulk import AuditSettings, audit_many
from gradaudit.result import AuditResult

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
NAMES = ["a.safetensors", "b.safetensors"]


def killed_at(moment: int, captures: Path, out: Path) -> bool:
    """Run in a process that kills itself at its nth fsync, or before or after its nth rename."""
    with warnings.catch_warnings():
        # Of threads that are not there in the child, which uses none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    try:
        moments = count(1)
        fsync, replace = os.fsync, Path.replace

        def strike() -> None:
            if next(moments) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        def struck_fsync(handle):
            strike()
            return fsync(handle)

        def struck_replace(self, target):
            strike()
            done = replace(self, target)
            strike()
            return done

        os.fsync, Path.replace = struck_fsync, struck_replace
        audit_many(captures, out)
    finally:
        os._exit(0)


@pytest.fixture
def quick(monkeypatch):
    """Each update is audited once: a hundred runs differ in what they write and when."""
    whole, known = AuditSettings.audit, {}

    def remembered(self, update, control):
        digest = update.sha256()
        if digest not in known:
            known[digest] = whole(self, update, control)
        return known[digest]

    monkeypatch.setattr(AuditSettings, "audit", remembered)


@pytest.mark.usefixtures("quick")
def test_a_kill_at_any_moment_loses_what_is_in_flight_and_nothing_else(tmp_path):
    captures = capture(tmp_path / "captures", NAMES)
    audit_many(captures, tmp_path / "whole")
    expected = findings(tmp_path / "whole")
    kills = 0
    for moment in count(1):
        out = tmp_path / str(moment)
        if not killed_at(moment, captures, out):
            break
        kills += 1
        # Never a half-written file under a result's name.
        for path in (out / "results").glob("*.json"):
            AuditResult.load(path)
        finished = list((out / "rows").glob("[!.]*"))
        summary = audit_many(captures, out)
        assert summary.reused == len(finished)
        assert findings(out) == expected
        assert summary.leaks == 2
        # Nothing that was half written is left; it may hold records.
        assert not [path for path in out.rglob(".*") if path.name != ".lock"]
    # Three files a result, the lock's owner, two summaries; three moments each.
    assert kills == 3 * (3 * len(NAMES) + 3)
