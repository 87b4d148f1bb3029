"""``gradaudit audit --shards``."""

from __future__ import annotations

import json

import pytest
from sharding.material import HARD, WINNER, save

from gradaudit.cli.exit_codes import ExitCode

WORDS = ("--attack", "spear", "--seconds", "none", "--submatrices", "5000", "--json")


@pytest.fixture(scope="module")
def update(tmp_path_factory):
    return save(tmp_path_factory.mktemp("update") / "update.safetensors", *HARD)


def test_the_winning_shard_s_result_is_told(run, update, tmp_path):
    result = run("audit", update, "--shards", "3", *WORDS, "--out", tmp_path / "out")
    assert result.exit_code == ExitCode.DONE, result.output
    told = json.loads(result.stdout)
    assert told["records_recovered"] == HARD[0]
    assert told["search"]["counters"]["shard"] == WINNER
    assert (tmp_path / "out" / "result.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shards", "0"), "--shards"),
        (("--workers", "2"), "--workers: found it with one update"),
        (("--engine", "processes"), "add --shards N to search it"),
        (("--shards", "2", "--engine", "in-process", "--workers", "2"), "found 2 in one process"),
        (("--shards", "2", "--reports"), "--reports: found it with one update"),
    ],
)
def test_errors_are_one_line(run, update, words, said):
    result = run("audit", update, *words)
    assert result.exit_code == ExitCode.BAD_INPUT
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_several_updates_have_no_shards(run, update, tmp_path):
    result = run("audit", update, update, "--shards", "2", "--out", tmp_path)
    assert result.exit_code == ExitCode.BAD_INPUT
    assert "--shards: found 2 with several updates, expected one update" in result.stderr
