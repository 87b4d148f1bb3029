"""A small update, and the program in this process or as one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.material import save_update
from click.testing import CliRunner, Result

from gradaudit.cli.program import program

Start = Callable[..., "subprocess.Popen[str]"]
Run = Callable[..., Result]


def environment(**changes: str) -> dict[str, str]:
    """The process's environment, without what says how a terminal looks."""
    unsaid = {"COLUMNS", "LINES", "NO_COLOR", "TERM", "FORCE_COLOR"}
    kept = {name: value for name, value in os.environ.items() if name not in unsaid}
    return kept | {"OMP_NUM_THREADS": "1"} | changes


@pytest.fixture
def update(tmp_path: Path) -> Path:
    return save_update(tmp_path)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run in this process, where it does not matter whose it is: a start takes seconds."""

    def call(*words: object) -> Result:
        monkeypatch.chdir(tmp_path)
        result = CliRunner().invoke(program, [str(word) for word in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return result

    return call


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start the program; ``before`` is Python that is run first, in the same process."""

    def begin(*words: object, before: str = "", env: dict[str, str] | None = None, **options):
        code = f"{before}\nfrom gradaudit.cli import main\nmain()"
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)],
            cwd=tmp_path,
            env=environment(**(env or {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
            **options,
        )

    return begin
