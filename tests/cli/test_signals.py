from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from cli.material import save_hard_update
from gradaudit.budget import Control
from gradaudit.cli.signals import stop_on_signals
from gradaudit.result import AuditResult

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", BOTH)
def test_the_first_asks_and_the_second_aborts(number):
    before = [signal.getsignal(each) for each in BOTH]
    control = Control()
    with stop_on_signals(control):
        signal.raise_signal(number)
        assert control.interrupted
        with pytest.raises(SystemExit) as end:
            signal.raise_signal(number)
    assert end.value.code == 130
    assert [signal.getsignal(each) for each in BOTH] == before


def test_other_threads_get_no_signals():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with stop_on_signals(Control()):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.fixture
def searching(tmp_path):
    """A process deep in a search that takes long, and what it writes."""
    save_hard_update(tmp_path)
    words = ["audit", "update.safetensors", "--attack", "spear", "--out", "o", "--seconds", "300"]
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", STARTER, *words],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stderr.readline() == "searching\n"
    yield process
    process.kill()
    process.communicate()


# The program itself, with a sign of life as soon as the search tries something.
STARTER = """
import sys
from gradaudit.cli import progress
from gradaudit.cli.program import main

show, told = progress.ProgressDisplay.__call__, []

def tell(self, report):
    if report.tried and not told:
        told.append(sys.stderr.write("searching\\n"))
        sys.stderr.flush()
    show(self, report)

progress.ProgressDisplay.__call__ = tell
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of this kind are those of POSIX")
@pytest.mark.parametrize("number", BOTH)
def test_a_search_ends_with_what_it_found(number, searching, tmp_path):
    started = time.monotonic()
    searching.send_signal(number)
    out, err = searching.communicate(timeout=60)
    assert time.monotonic() - started < 20
    assert searching.returncode == 3, err
    assert "Traceback" not in err
    result = AuditResult.load(tmp_path / "o" / "result.json")
    assert "interrupted" in result.cause
    assert result.search.counters["submatrices"] > 0
    assert out.startswith(result.summary())


@pytest.mark.skipif(os.name != "posix", reason="signals of this kind are those of POSIX")
def test_ctrl_c_while_nothing_is_searched(tmp_path):
    code = (
        "import gradaudit.result as r, signal\n"
        # A background job of a shell without job control inherits SIGINT ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "r.AuditResult.load = lambda path: signal.raise_signal(signal.SIGINT)\n"
        "from gradaudit.cli import main\n"
        "main(['report', 'r.json', '--out', 'r.html'])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert process.returncode == 130
    # On a terminal the first line ends that of the ^C.
    assert process.stderr == "\nInterrupted: nothing was written.\n"
