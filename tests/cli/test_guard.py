from __future__ import annotations

import click
import pytest
import torch

from gradaudit.cli.exit_codes import ExitCode
from gradaudit.cli.guard import DEBUG_VARIABLE, guarded, one_line
from gradaudit.errors import InputError, MissingExtraError


def raising(error: BaseException):
    def call() -> None:
        raise error

    return call


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (InputError("x", "1", "2"), 2, "x: found 1, expected 2"),
        (MissingExtraError("pip install 'gradaudit[data]'"), 2, "gradaudit[data]"),
        (click.UsageError("No such option."), 2, "gradaudit --help"),
        (click.FileError("a.pt", "gone"), 2, "a.pt"),
        (FileNotFoundError(2, "No such file or directory", "b.pt"), 2, "b.pt: No such file"),
        (PermissionError(13, "Permission denied"), 2, "Permission denied"),
        (MemoryError("31 GB"), 2, "--layer"),
        (torch.OutOfMemoryError("CUDA out of memory"), 2, "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 2, "--layer"),
        (RuntimeError("shapes differ"), 70, "internal error (RuntimeError: shapes differ)"),
        (KeyboardInterrupt(), 130, "Interrupted"),
        (click.Abort(), 130, "Interrupted"),
    ],
)
def test_errors_are_one_line_and_a_code(raised, code, words, capsys, monkeypatch):
    monkeypatch.delenv(DEBUG_VARIABLE, raising=False)
    assert guarded(raising(raised)) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert words in err


def test_an_allocation_that_torch_refuses_is_told_as_such(capsys):
    assert guarded(lambda: torch.empty(2**55)) == ExitCode.BAD_INPUT
    assert "not enough memory" in capsys.readouterr().err


def test_the_traceback_on_request(capsys, monkeypatch):
    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    assert guarded(raising(InputError("x", "1", "2"))) == 2
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert err.splitlines()[-1] == "Error: x: found 1, expected 2"


def test_a_reader_that_went_away_is_no_error(capsys):
    assert guarded(raising(BrokenPipeError(32, "Broken pipe"))) == 0
    assert capsys.readouterr().err == ""


def test_hostile_text_cannot_steer_a_terminal():
    text = one_line("a\n\x1b]0;title\x07 b\u202ec\x9b31m")
    assert text.isprintable()
    assert "\\u202e" in text
