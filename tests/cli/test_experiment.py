"""``gradaudit experiment``."""

from __future__ import annotations

import json

import pytest

from gradaudit.cli.exit_codes import ExitCode
from gradaudit.experiments import NAMES


def test_the_list_names_every_experiment(run):
    text = run("experiment", "--list").stdout
    assert text.startswith(f"{NAMES[0]}:")
    assert not [name for name in NAMES if f"{name}:" not in text]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "NAME: found none"),
        (("spear-table9",), "found 'spear-table9'"),
        (("spear-table2", "--quick", "--full"), "--quick, --full: found both"),
        (("spear-table2", "--data", "nowhere.npz"), "nowhere.npz"),
        (("spear-table2", "--seeds", "0"), "--seeds"),
    ],
)
def test_errors_are_one_line(run, tmp_path, words, said):
    result = run("experiment", *words, "--out", tmp_path / "out")
    assert result.exit_code == ExitCode.BAD_INPUT
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_an_experiment_is_run_and_its_rows_are_kept(run, tmp_path):
    # The quickest: what others compute is asked in tests/experiments.
    words = ("experiment", "spear-figure3", "--quick", "--seeds", "1", "--data", "digits")
    first = run(*words, "--out", tmp_path, "--quiet")
    assert first.exit_code == ExitCode.DONE, first.output
    assert first.output == ""
    assert "| 200 | 400 | 1 | 1 |" in (tmp_path / "spear-figure3.md").read_text()
    kept = json.loads((tmp_path / "spear-figure3.json").read_text())
    assert kept["settings"] == {"name": "quick", "seeds": 1, "data": "digits", "seed": 0}
    again = run(*words, "--out", tmp_path)
    assert again.exit_code == ExitCode.DONE
    assert "4 of 4 units" in again.stdout
