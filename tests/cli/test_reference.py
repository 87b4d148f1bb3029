from __future__ import annotations

from pathlib import Path

import pytest

from gradaudit.cli.exit_codes import ExitCode
from gradaudit.cli.program import program
from gradaudit.cli.reference import reference
from gradaudit.cli.verb import LOSS_NAMES
from gradaudit.models import LOSSES

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_document_is_in_step_with_the_commands():
    if not DOCUMENT.exists():
        pytest.skip("the documents are not beside the tests")
    assert DOCUMENT.read_text(encoding="utf-8") == reference(), (
        "run: python -m gradaudit.cli.reference > docs/cli.md"
    )


def test_nothing_is_left_out():
    text = reference()
    for name, command in program.commands.items():
        assert f"## gradaudit {name}\n" in text
        for parameter in command.params:
            for option in parameter.opts:
                assert option.upper() in text.upper()
    for code in ExitCode:
        assert f"| {int(code)} | {code.meaning} |" in text


def test_tables_are_tables():
    for line in reference().splitlines():
        if line.startswith("|"):
            assert line.count("|") == 3, line


def test_losses_are_those_of_the_package():
    assert tuple(LOSSES) == LOSS_NAMES
