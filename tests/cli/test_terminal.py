from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys

import pytest

from gradaudit.cli.terminal import output, say


def said(stream: io.StringIO, *words: str) -> str:
    with contextlib.redirect_stdout(stream):
        say(output(), *words)
    return stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_foreign_text_is_neither_markup_nor_control():
    text = said(io.StringIO(), "[bold]x[/bold] :smile: \x1b[31mred\x07 [/oops]")
    assert text == "[bold]x[/bold] :smile: \\x1b[31mred\\x07 [/oops]\n"


def test_a_paragraph_is_one_line_without_a_terminal_and_wrapped_on_one(monkeypatch):
    text = "word " * 100
    assert len(said(io.StringIO(), text).splitlines()) == 1
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    lines = said(Terminal(), text).splitlines()
    assert len(lines) > 10
    assert max(map(len, lines)) <= 40


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31m" in said(Terminal(), "Proven leak", "red")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in said(Terminal(), "Proven leak", "red")


@pytest.mark.skipif(os.name != "posix", reason="pipes of this kind are those of POSIX")
def test_printing_goes_on_when_nobody_reads():
    code = (
        "import sys\n"
        "from gradaudit.cli.terminal import output, say\n"
        "console = output()\n"
        "sys.stdin.readline()\n"
        "for _ in range(3): say(console, 'x' * 100_000)\n"
        "print('unread'); sys.stderr.write('alive'); sys.exit(3)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(b"go\n", timeout=60)
    assert (process.returncode, err) == (3, b"alive")
