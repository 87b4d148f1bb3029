"""The example of docs/local-training.md runs, and its commands are commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import torch

from gradaudit.cli.program import program

TEXT = (Path(__file__).parents[2] / "docs" / "local-training.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        exec(block, {})
    assert capsys.readouterr().out == "6 layer\n"


def test_commands_are_understood(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("update.safetensors").touch()
    (block,) = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    lines = block.replace("\\\n", " ").splitlines()
    assert len(lines) == 2
    for line in lines:
        name, verb, *words = shlex.split(line)
        assert name == "gradaudit"
        program.commands[verb].make_context(verb, words)


def test_files_that_are_named_exist():
    root = Path(__file__).parents[2]
    named = re.findall(r"`((?:linear|benchmarks)/[\w/.]+)`", TEXT)
    assert named
    for name in named:
        assert (root / name).exists() or (root / "src" / "gradaudit" / name).exists()
