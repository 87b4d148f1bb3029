from __future__ import annotations

import json

import pytest

from gradaudit.rank.table import NO_PROMISE


def test_the_table_names_the_layer_that_loses_data(run):
    result = run("rank", "cnn6_d")
    assert result.exit_code == 0, result.output
    row = next(line for line in result.stdout.splitlines() if line.startswith("conv2"))
    assert row.split() == ["conv2", "3,468", "3,780", "+311", "-280", "280", "+396", "+0"]
    assert "loses data first at conv2" in result.stdout
    assert NO_PROMISE in result.stdout
    assert result.stderr == ""


def test_json_is_all_of_stdout(run):
    result = run("rank", "lenet", "--input-shape", "3,32,32", "--json", "--what-if", "--measure")
    data = json.loads(result.stdout)
    assert data["input_shape"] == [3, 32, 32]
    assert [row["name"] for row in data["layers"]] == ["conv1", "conv2", "conv3", "fc"]
    # The first layer would take longer than is worth it.
    assert [row["measured"] for row in data["layers"]] == [False, True, True, True]
    assert "ranks are counted for conv1, and measured for the other layers" in data["summary"]
    assert data["deficit"] == 0
    changes = {change["title"]: change for change in data["what_if"]}
    assert changes["conv1 with stride 4 instead of 2"]["losses"]["conv1"] > 0
    assert "what_if" not in json.loads(run("rank", "lenet", "--json").stdout)


def test_changes_are_listed_beside_the_network_as_it_is(run):
    lines = run("rank", "resnet18?width=8", "--what-if").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("what if"))
    assert lines[start + 1].startswith("as it is")
    named = [line for line in lines[start:] if "skip connection" in line]
    assert [line.split()[0] for line in named] == [f"block{i}" for i in range(1, 9)]
    assert lines[-1] == NO_PROMISE


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_figure_is_written(suffix, tmp_path, run):
    path = tmp_path / f"ranks{suffix}"
    result = run("rank", "mlp:6-4-2", "--figure", path)
    assert result.exit_code == 0, result.output
    assert f"Written: {path}" in result.stdout
    head = path.read_bytes()[:200]
    assert b"<svg" in path.read_bytes() if suffix == ".svg" else head.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words",
    [
        ("lenot",),
        ("lenet", "--input-shape", "3,32"),
        ("lenet", "--input-shape", "a,b,c"),
        ("lenet?input_shape=1,28,28", "--input-shape", "3,32,32"),
        ("torch.nn:Identity",),
        ("torch.nn:Identity", "--input-shape", "3,4,4"),
        ("lenet", "--figure", "ranks.txt"),
        ("lenet", "--figure", "n" * 300 + ".svg"),
        ("lenet", "--seed", "-1"),
    ],
)
def test_what_cannot_be_done_is_one_line(words, run, error):
    error(run("rank", *words))
