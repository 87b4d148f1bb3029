"""Small updates that a real audit solves in a moment, and two ways to run the program."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.material import save_update
from gradaudit.cli.program import program

Run = Callable[..., Result]
Spawn = Callable[..., "subprocess.CompletedProcess[str]"]
# Before click 8.2, stderr was kept apart only if that was asked for.
APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}


@pytest.fixture
def run() -> Run:
    """Run in this process; nothing but `SystemExit` may come out of the program."""

    def call(*words: object, env: dict[str, str] | None = None) -> Result:
        result = CliRunner(**APART).invoke(program, [str(word) for word in words], env=env)
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        assert "Traceback" not in result.output
        return result

    return call


@pytest.fixture
def spawn(tmp_path: Path) -> Spawn:
    """Run as a process of its own, without a terminal."""

    def call(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gradaudit", *map(str, words)],
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | (env or {}),
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    return call


@pytest.fixture
def error() -> Callable[[Result], str]:
    """The one line on stderr of a refusal."""

    def line(result: Result, code: int = 2) -> str:
        assert result.exit_code == code, result.output
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("Error: ")
        assert result.stdout == ""
        return lines[0]

    return line


@pytest.fixture
def update(tmp_path: Path) -> Path:
    return save_update(tmp_path)
