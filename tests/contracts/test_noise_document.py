"""The examples of docs/noise.md run, in order, and the numbers it gives are the source's."""

from __future__ import annotations

import re
from pathlib import Path

from gradaudit.certify import mixtures, noisy, sides
from gradaudit.evidence import Status

TEXT = (Path(__file__).parents[2] / "docs" / "noise.md").read_text(encoding="utf-8")


def test_examples_run(capsys):
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert "each to within an estimated error" in capsys.readouterr().out


def test_every_status_is_explained():
    explained = set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE))
    assert explained == {status.value for status in Status}


def test_the_conditions_are_those_of_the_certificate():
    assert f"at most {noisy.LARGEST_REMAINDER} times its energy" in TEXT
    assert f"at most {sides.LARGEST_MISMATCH * 100:g} %" in TEXT
    assert f"$10^{-sides.CHANCE:g}$" in TEXT
    assert sides.CLEAR_SIGMAS == 3
    assert "three standard errors" in TEXT
    assert sides.FAR_SIGMAS == 6
    assert "six" in TEXT
    assert noisy.LARGEST_RELATIVE_ERROR == 0.5
    assert mixtures.RESEMBLING == 0.5
    assert "less than half of their size" in TEXT
    assert f"more than {sides.LARGEST_INACTIVE:g} times the noise" in TEXT
    assert "less than half of its own root mean square" in TEXT
