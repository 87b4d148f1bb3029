"""The example of docs/defences.md runs, and its commands are commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from defending.material import noise_curve

from gradaudit.cli.defend import defend
from gradaudit.report.defend_table import table

TEXT = (Path(__file__).parents[2] / "docs" / "defences.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    exec(block, {})
    assert capsys.readouterr().out.startswith("none 3 of 3 0.0\n")


def test_commands_are_understood():
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    text = "".join(blocks).replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in text.splitlines() if line.strip()]
    assert len(lines) >= 3
    for words in lines:
        assert words[:2] == ["gradaudit", "defend"]
        defend.make_context("defend", words[2:])


def test_every_column_is_explained():
    explained = set(re.findall(r"^\| ([A-Z][\w ]+) \|", TEXT, re.MULTILINE))
    shown = {column.title for column in table(noise_curve())} - {"Defence", "Outcome", "Seconds"}
    assert shown <= explained
