"""The examples of docs/clients.md run, in order, and its table names every defence."""

from __future__ import annotations

import re
from pathlib import Path

from gradaudit.defenses import DEFENSES, parse_defense

TEXT = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")


def test_examples_run():
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, names)


def test_every_defence_is_in_the_table():
    texts = dict(re.findall(r"^\| `([a-z-]+)(\S*)` \| `\w+` \|", TEXT, re.MULTILINE))
    assert texts.keys() == DEFENSES.keys()
    for name, options in texts.items():
        # The letters stand for numbers.
        made = parse_defense(name + re.sub(r"=[a-zA-Z]\b", "=1", options))
        assert f"| `{type(made).__name__}` |" in TEXT
