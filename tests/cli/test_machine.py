from __future__ import annotations

import json

import pytest
import torch

from cli.material import save_update
from gradaudit.cli import machine
from gradaudit.cli.machine import set_threads


def test_memory_is_a_limit_that_the_result_names(update, run, error):
    result = run("audit", update, "--max-memory", "20MB", "--json", "--quiet")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["request"]["memory"] == 20_000_000
    line = error(run("audit", update, "--max-memory", "10kB"))
    assert "a gradient of 80 x 24" in line
    assert "the limit that was set" in line
    assert "--max-memory: found 'much'" in error(run("audit", update, "--max-memory", "much"))


def test_threads_are_those_asked_for(update, run, error, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    assert run("audit", update, "--threads", "3").exit_code == 0
    assert 3 in asked
    assert "'--threads': 0" in error(run("audit", update, "--threads", "0"))
    (tmp_path / "more").mkdir()
    save_update(tmp_path / "more", seed=6)
    several = run("audit", update, tmp_path / "more", "--out", tmp_path / "out", "--threads", "2")
    assert "see --workers" in error(several)


@pytest.mark.parametrize(("chosen", "set_to"), [(None, []), (4, [4])])
def test_where_the_environment_says_it_nothing_is_set(monkeypatch, chosen, set_to):
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr(machine, "choose_threads", lambda wanted: chosen)
    set_threads(None)
    assert asked == set_to
