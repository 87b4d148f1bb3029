"""The examples of docs/formats.md run, in order, as a reader would run them."""

from __future__ import annotations

import re
from pathlib import Path

from gradaudit.capture.roles import ALIASES
from gradaudit.update import Update

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats.md"


def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    kinds = []
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        exec(block, names)
        if "load_update(" in block:
            assert isinstance(names["update"], Update)
            kinds.append(names["update"].observed_kind)
    assert kinds == ["gradient", "delta", "delta"]


def test_every_group_name_is_documented():
    text = DOCUMENT.read_text()
    assert all(f"`{alias}`" in text for alias in ALIASES)
