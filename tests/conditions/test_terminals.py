"""Terminals without colours or of 40 columns, and names that they cannot show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from cli.material import save_update

from conditions.conftest import environment
from gradaudit.result import AuditResult

pty = pytest.importorskip("pty", reason="terminals of this kind are those of POSIX")
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;|48;)[0-9;]*m")


def on_terminal(folder: Path, *words: str, columns: int = 40, **env: str) -> tuple[int, str]:
    """Run the program on a terminal of so many columns; its code and all that it showed."""
    import fcntl
    import struct
    import termios

    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "gradaudit", *words]
    with subprocess.Popen(
        command, cwd=folder, env=environment(**env), stdin=its, stdout=its, stderr=its
    ) as process:
        os.close(its)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:
                # Nobody holds the other end any more.
                break
            if not part:
                break
            shown += part
        code = process.wait(timeout=300)
    os.close(ours)
    return code, shown.decode()


def width(line: str) -> int:
    plain = ANSI.sub("", line.rpartition("\r")[2])
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain)


def test_forty_columns(update, tmp_path):
    """Everything is said, in lines that fit."""
    words = ("audit", str(update.name), "--truth", "truth.safetensors", "--show-records")
    code, shown = on_terminal(tmp_path, *words, TERM="xterm")
    assert code == 0, shown
    assert max(map(width, shown.replace("\r\n", "\n").split("\n"))) <= 40
    text = " ".join(ANSI.sub("", shown).split())
    for said in ("Proven leak", "Records certified", "What to do", "3 of 3", "Record 3"):
        assert said in text, said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rank lenet", ["layer: conv3", "unknowns: 2,352", "virtual: +1,568"]),
        (
            "plan --widths 24,80,4 --batch-size 4 --no-calibration",
            ["attack: half-space search (auto)", "confidence: measured range", "SPEAR++"],
        ),
    ],
)
def test_tables_on_forty_columns(words, said, tmp_path):
    """No word is broken or cut: a table that does not fit becomes a list."""
    code, shown = on_terminal(tmp_path, *words.split(), TERM="xterm", NO_COLOR="1")
    assert code == 0, shown
    assert max(map(width, shown.replace("\r\n", "\n").split("\n"))) <= 40
    text = " ".join(ANSI.sub("", shown).split())
    assert "\u2026" not in text
    assert not [each for each in said if each not in text], text


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}])
def test_without_colours(env, update, tmp_path):
    code, shown = on_terminal(tmp_path, "audit", update.name, columns=100, **env)
    assert code == 0, shown
    assert not COLOUR.search(shown)
    if env["TERM"] == "dumb":
        assert "\x1b" not in shown
    assert "Proven leak" in shown


@pytest.mark.parametrize(
    "env", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "C.UTF-8"}]
)
def test_names_that_a_terminal_cannot_show(env, tmp_path):
    folder = os.fsencode(tmp_path) + "/Prüfung 記録".encode()
    done = audited(folder, env)
    assert done.returncode == 0, done.stderr
    assert b"Proven leak" in done.stdout
    assert AuditResult.load(os.fsdecode(folder) + "/ö/result.json").records_recovered == 3
    assert b"</html>" in Path(os.fsdecode(folder) + "/ä.html").read_bytes()


def test_a_name_that_is_no_text_is_refused_in_one_line(tmp_path):
    """The safetensors library opens no file under such a name."""
    done = audited(os.fsencode(tmp_path) + b"/\xff\xfe", {"LC_ALL": "C.UTF-8"})
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert b"\\udcff\\udcfe" in done.stderr


def audited(folder: bytes, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    os.mkdir(folder)
    save_update(Path(tmp := os.fsdecode(os.path.dirname(folder))))
    os.rename(f"{tmp}/update.safetensors", folder + b"/update.safetensors")
    words = [b"audit", folder + b"/update.safetensors"]
    words += [b"--out", folder + "/ö".encode(), b"--report", folder + "/ä.html".encode()]
    command = [sys.executable, "-m", "gradaudit", *words]
    return subprocess.run(
        command, env=environment(**env), capture_output=True, timeout=300, check=False
    )
