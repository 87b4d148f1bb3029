from __future__ import annotations

import io

import pytest

from gradaudit.budget import Progress
from gradaudit.cli import progress as module
from gradaudit.cli.progress import describe, progress_display


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def reports(number: int) -> list[Progress]:
    return [Progress("layer fc1: submatrices", 1000 * i, i, 16, float(i)) for i in range(number)]


def test_a_line_says_all_that_is_known():
    text = describe(Progress("search", 12_345, 3, 16, 61.0, 0.2))
    assert text == "search, 12,345 tried, 3 of 16 found, 1 min 1 s, about 1 s left"
    assert describe(Progress("reading")) == "reading, 0 s"
    assert "\x1b" not in describe(Progress("layer \x1b[2J"))


def show(stream: io.StringIO, monkeypatch, **options: bool) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    clock = iter(range(0, 10_000, 3))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))
    with progress_display(**{"quiet": False, "machine": False, **options}) as listener:
        for report in reports(20):
            listener(report)
    return stream.getvalue()


def test_without_a_terminal_a_line_in_ten_seconds(monkeypatch):
    lines = show(io.StringIO(), monkeypatch).splitlines()
    # Twenty reports, three seconds apart: a minute.
    assert len(lines) == 5
    assert all(line.startswith("layer fc1: submatrices") for line in lines)


@pytest.mark.parametrize("options", [{"quiet": True}, {"machine": True}])
def test_silence_for_programs_and_on_request(options, monkeypatch):
    assert show(io.StringIO(), monkeypatch, **options) == ""


@pytest.mark.parametrize("machine", [False, True])
def test_a_terminal_shows_a_live_line_and_cleans_up(machine, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr", stream := Terminal())
    with progress_display(quiet=False, machine=machine) as listener:
        listener(reports(2)[1])
        listener._status._live.refresh()
    text = stream.getvalue()
    assert "1,000 tried" in text
    # The cursor is hidden, and shown again.
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


def test_quiet_holds_on_a_terminal_too(monkeypatch):
    monkeypatch.setattr("sys.stderr", stream := Terminal())
    with progress_display(quiet=True, machine=False) as listener:
        listener(reports(2)[1])
    assert stream.getvalue() == ""
