from __future__ import annotations

import json

import pytest

from gradaudit.planning.result import CAVEAT

SMALL = ("plan", "--widths", "3072,200,200,10", "-b", "20", "--no-calibration")


def test_the_table_and_the_caveat(run):
    result = run(*SMALL)
    assert result.exit_code == 0, result.output
    assert "20 of 20 records" in result.stdout
    assert "closed form" in result.stdout
    assert CAVEAT in result.stdout


def test_json_is_all_of_stdout(run):
    data = json.loads(run(*SMALL, "--clients", "3", "--json").stdout)
    assert data["client"]["records"] == 60
    assert data["attacks"][0]["attack"] == "halfspace"


def test_the_page_needs_nothing_else(run, tmp_path):
    path = tmp_path / "plan.html"
    result = run(*SMALL, "--noise", "1e-5", "--html", path)
    assert result.exit_code == 0, result.output
    page = path.read_text(encoding="utf-8")
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "20 and 200" in page


def test_a_model_by_name(run):
    result = run("plan", "--model", "lenet", "--no-calibration", "--json")
    assert json.loads(result.stdout)["client"]["layer"] == "fc"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--widths", "3,4,2", "--model", "lenet"),
        ("--widths", "3"),
        ("--widths", "3,4,2", "--noise", "-1"),
    ],
)
def test_errors_are_one_line(words, run):
    result = run("plan", *words)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_without_a_network_an_example_is_given(run):
    said = run("plan").stderr
    assert "--widths or --model: found neither" in said
    assert "gradaudit plan --widths 3072,200,200,10 -b 20" in said
    assert "--model, expected one of the two" in run("plan", *SMALL[1:], "--model", "lenet").stderr


def test_large_numbers_are_grouped(run):
    said = run("plan", "--widths", "30,1000,3", "-b", 10**12, "--no-calibration").stdout
    assert "1,000,000,000,000 records need more than 1,000,000,000,006 zeros" in said
    assert "1000000000000" not in said
