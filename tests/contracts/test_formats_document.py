"""The examples of docs/formats.md run, in order, as a reader would run them."""

from __future__ import annotations

import re
from pathlib import Path

from gradaudit.capture.roles import ALIASES
from gradaudit.update import GradientStep, LocalTraining, Update, step_from_text

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
    assert kinds == ["gradient", *["delta"] * 4]


def test_every_group_name_is_documented():
    text = DOCUMENT.read_text()
    assert all(f"`{alias}`" in text for alias in ALIASES)


def test_every_field_of_a_step_is_documented():
    (block,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    steps = [
        step_from_text(text, "formats.md") for text in re.findall(r"\{.*?\}", block, re.DOTALL)
    ]
    assert steps == [GradientStep(0.1), LocalTraining(0.1, epochs=3, batch_size=5, records=20)]
