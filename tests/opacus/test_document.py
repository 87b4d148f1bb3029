"""The document's program runs, and does what the document says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("opacus.optimizers")
DOCUMENT = Path(__file__).parents[2] / "docs" / "opacus.md"


@pytest.mark.filterwarnings("ignore:Secure RNG turned off")
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_the_program_recovers_every_record(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    exec(program, names)
    assert names["result"].records_recovered == names["step"].batch_size > 0
    assert capsys.readouterr().out
    assert (tmp_path / "captures" / "step-00001.safetensors").is_file()
