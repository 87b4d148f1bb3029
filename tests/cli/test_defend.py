from __future__ import annotations

import json

import pytest

SMALL = ("--data", "patches?size=6", "--width", 60, "--batch-size", 3, "--dtype", "float64")
ONCE = ("--repeats", 1, "--seconds", 20)


def test_the_answer_the_table_and_the_files(tmp_path, run):
    out = tmp_path / "out"
    words = ("--defense", "none", "--defense", "prune:share=0.9/0.99", "--out", out)
    result = run("defend", *SMALL, *ONCE, *words)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Of the 3 settings tried, the cheapest under which this attack")
    assert "prune:share=0.9 " in result.stdout
    assert "all records recovered" in result.stdout
    assert "proves nothing about other attacks" in result.stdout
    value = json.loads((out / "curve.json").read_text())
    assert [point["certified"] for point in value["points"]] == [3, 0, 0]
    assert value["seeds"] == [0]
    assert "<html" in (out / "report.html").read_text()
    assert len(list((out / "runs").iterdir())) == 3
    # No record is kept: of a run, only how close it came.
    assert {path.name for path in out.iterdir()} == {"curve.json", "report.html", "runs"}


def test_the_same_command_goes_on(tmp_path, run, monkeypatch):
    words = ("defend", *SMALL, *ONCE, "--defense", "none", "--out", tmp_path / "out", "--json")
    first = run(*words)
    monkeypatch.setattr("gradaudit.defending.sweep.measure", None)
    again = run(*words)
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert json.loads(again.stdout)["answers"][0]["answer"].startswith("This attack recovered")


def test_a_gate(tmp_path, run):
    words = ("defend", *SMALL, *ONCE, "--fail-on-leak", "--quiet")
    assert run(*words, "--defense", "none").exit_code == 1
    quiet = run(*words, "--defense", "sign")
    assert quiet.exit_code == 0
    assert len(quiet.stdout.splitlines()) == 2


def test_a_search_that_had_not_ended_is_no_answer(run):
    words = ("--defense", "none", "--attack", "spear", "--repeats", 1, "--seconds", 0.01)
    result = run("defend", "--data", "patches?size=6", "--width", 60, "--batch-size", 14, *words)
    assert result.exit_code == 3, result.output
    assert result.stdout.startswith(
        "This attack recovered nothing here, even without a defence, in"
    )


def test_local_training_beside_one_gradient(run):
    words = ("--local-epochs", "0,2", "--learning-rate", 1e-3, "--local-batch-size", 3)
    result = run("defend", *SMALL, *ONCE, *words, "--defense", "none", "--json")
    assert result.exit_code == 0, result.output
    trainings = [point["training"] for point in json.loads(result.stdout)["points"]]
    assert trainings[0] is None
    assert (trainings[1]["epochs"], trainings[1]["batch_size"]) == (2, 3)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--defense", "fence"), "fence"),
        (("--defense", "prune:share=2"), "prune: share"),
        (("--defense", "prune:share=0.5/"), "between alternatives"),
        (("--batch-size", "0"), "batch-size"),
        (("--batch-size", "a"), "--batch-size"),
        (("--width", "5", "--model", "lenet"), "--width"),
        (("--local-epochs", "2"), "--learning-rate"),
        (("--learning-rate", "2"), "--learning-rate"),
        (("--local-epochs", "-1", "--learning-rate", "1"), "epochs"),
        (("--delta", "2"), "delta"),
        (("--attack", "magic"), "attack"),
        (("--data", "gone.npz"), "gone.npz"),
        (("--repeats", "0"), "--repeats"),
    ],
)
def test_what_does_not_fit_is_one_line(words, expected, run, error, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = [] if words[0] == "--data" else ["--data", "patches?size=6"]
    extra = [] if words[0] in ("--width", "--batch-size") else ["--batch-size", 3, "--width", 60]
    assert expected in error(run("defend", *base, *extra, *words))
    assert not list(tmp_path.iterdir())


def test_places_are_checked_before_anything_is_audited(tmp_path, run, error, monkeypatch):
    monkeypatch.setattr("gradaudit.defending.defense_curve", None)
    (tmp_path / "file").write_text("x")
    assert "--out" in error(run("defend", *SMALL, "--out", tmp_path / "file"))
    data = tmp_path / "data.npz"
    data.write_text("x")
    assert "--data" in error(run("defend", "--data", data, "--report", data))
    assert data.read_text() == "x"
