from __future__ import annotations

import json

import pytest
import torch

from gradaudit.capture import load_update
from gradaudit.defenses import DEFENSES
from gradaudit.truth import Truth
from gradaudit.update import LocalTraining

CSV = "age,job,income\n" + "\n".join(
    f"{20 + i},{'baker' if i % 3 else 'nurse'},{'high' if i % 2 else 'low'}" for i in range(30)
)


@pytest.fixture
def table(tmp_path):
    (tmp_path / "people.csv").write_text(CSV)
    return tmp_path / "people.csv"


def test_the_default_network_fits_the_data(table, tmp_path, run):
    out, truth = tmp_path / "ü" / "u.safetensors", tmp_path / "ü" / "t.safetensors"
    result = run("simulate", "--data", table, "--batch-size", 5, "--out", out, "--truth", truth)
    assert result.exit_code == 0, result.output
    assert "5 records" in result.stdout
    assert f"Written: {out}" in result.stdout
    update = load_update(out)
    assert [layer.shape for layer in update.linear_layers()] == [(400, 3), (400, 400), (2, 400)]
    assert update.observed["fc1.weight"].dtype == torch.float32
    assert [column.name for column in update.preprocessing.columns] == ["age", "job"]
    assert Truth.load(truth).batch_size == 5


def test_the_update_holds_no_record(table, tmp_path, run):
    run("simulate", "--data", table, "--batch-size", 5, "--out", tmp_path / "u")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "u"]
    names = {name.split(".")[0] for name in load_update(tmp_path / "u").observed}
    assert names == {"fc1", "fc2", "fc3"}


def test_options_reach_the_client(table, tmp_path, run):
    out, truth = tmp_path / "u", tmp_path / "t"
    words = ["--model", "mlp:3-7-2", "--label", 1, "--dtype", "float64", "--observe", "delta"]
    words += ["--learning-rate", 0.5, "--gradient-dtype", "float16", "--seed", 4, "--quiet"]
    words += ["--loss", "mse", "--batch-size", 3]
    result = run("simulate", "--data", table, *words, "--out", out, "--truth", truth)
    assert (result.exit_code, result.output) == (0, "")
    update = load_update(out)
    assert update.observed_kind == "delta"
    assert update.step.learning_rate == 0.5
    assert update.observed["fc1.weight"].dtype == torch.float16
    assert update.weights["fc1.weight"].shape == (7, 3)
    assert update.weights["fc1.weight"].dtype == torch.float64
    assert Truth.load(truth).labels.tolist() == [1, 1, 1]


def test_the_gradient_is_that_of_plain_pytorch(table, tmp_path, run):
    words = ["--model", "mlp:3-7-2", "--batch-size", 6, "--dtype", "float64"]
    run("simulate", "--data", table, *words, "--out", tmp_path / "u", "--truth", tmp_path / "t")
    update, truth = load_update(tmp_path / "u"), Truth.load(tmp_path / "t")
    w = {name: t.clone().requires_grad_() for name, t in update.weights.items()}
    hidden = torch.relu(truth.inputs @ w["fc1.weight"].T + w["fc1.bias"])
    torch.nn.functional.cross_entropy(
        hidden @ w["fc2.weight"].T + w["fc2.bias"], truth.labels
    ).backward()
    for name, gradient in update.observed.items():
        torch.testing.assert_close(gradient, w[name].grad, rtol=1e-12, atol=1e-15)


def test_one_seed_gives_the_same_records_to_every_network(table, tmp_path, run):
    inputs = []
    for index, model in enumerate(("mlp:3-7-2", "mlp:3-9-9-2", None)):
        extra = ["--model", model] if model else []
        truth = tmp_path / f"t{index}"
        run(
            "simulate",
            "--data",
            table,
            *extra,
            "--seed",
            9,
            "--out",
            tmp_path / "u",
            "--truth",
            truth,
        )
        inputs.append(Truth.load(truth).inputs)
    assert torch.equal(inputs[0], inputs[1])
    assert torch.equal(inputs[0], inputs[2])
    run(
        "simulate",
        "--data",
        table,
        "--seed",
        8,
        "--out",
        tmp_path / "u",
        "--truth",
        tmp_path / "t3",
    )
    assert not torch.equal(inputs[0], Truth.load(tmp_path / "t3").inputs)


def test_a_single_logit_for_the_loss_that_needs_one(table, tmp_path, run):
    words = ["--loss", "binary_cross_entropy", "--out", tmp_path / "u"]
    assert run("simulate", "--data", table, *words).exit_code == 0
    assert load_update(tmp_path / "u").weights["fc3.weight"].shape == (1, 400)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--data", "gone.csv"], "gone.csv"),
        (["--observe", "delta"], "--learning-rate"),
        (["--learning-rate", "0.1"], "--learning-rate"),
        (["--batch-size", "31"], "--batch-size: found 31, expected at most the 30"),
        (["--batch-size", "9" * 30], "--batch-size"),
        (["--loss", "x"], "--loss"),
        (["--batch-size", "0"], "--batch-size"),
        (["--label", "7"], "label"),
        (["--model", "mlp:9-3"], "the model refuses"),
        (["--model", "nowhere:net"], "nowhere"),
        (["--truth", "u.safetensors"], "--truth"),
        (["--dtype", "int8"], "--dtype"),
        (["--local-epochs", "2"], "--learning-rate"),
        (["--local-epochs", "0"], "--local-epochs"),
        (["--local-epochs", "2", "--observe", "gradient"], "--observe"),
        (["--momentum", "1", "--learning-rate", "0.1"], "--momentum: found 1.0"),
        (["--defense", "fence"], "defense: found 'fence'"),
        (["--defense", "prune:share=2"], "defense prune: share: found 2"),
        (["--defense", "sign", "--defense", "dp-sgd:clip=1,noise=1"], "put DPSGD first"),
    ],
)
def test_what_does_not_fit_is_one_line(words, expected, table, tmp_path, run, error, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = error(run("simulate", "--data", table, "--out", "u.safetensors", *words))
    assert expected in line
    assert not (tmp_path / "u.safetensors").exists()


def test_the_data_are_not_written_over(table, run, error):
    assert "--data" in error(run("simulate", "--data", table, "--out", table))
    assert table.read_text() == CSV


def test_a_missing_extra_is_one_line(tmp_path, run, error, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    line = error(run("simulate", "--data", "digits", "--out", tmp_path / "u"))
    assert "pip install 'gradaudit[data]'" in line


def test_metadata_tells_nothing_about_the_place(table, tmp_path, run):
    run("simulate", "--data", table, "--out", tmp_path / "u")
    header = (tmp_path / "u").read_bytes()
    length = int.from_bytes(header[:8], "little")
    assert str(tmp_path) not in json.dumps(json.loads(header[8 : 8 + length]))


def test_local_training(table, tmp_path, run):
    out, truth = tmp_path / "u", tmp_path / "t"
    words = ["--batch-size", 7, "--local-epochs", 3, "--local-batch-size", 2, "--momentum", 0.9]
    words += ["--learning-rate", 0.5, "--weight-decay", 0.01, "--out", out, "--truth", truth]
    result = run("simulate", "--data", table, *words)
    assert result.exit_code == 0, result.output
    assert "12 local steps" in result.stdout
    update = load_update(out)
    assert update.observed_kind == "delta"
    assert update.step == LocalTraining(0.5, 3, 2, momentum=0.9, weight_decay=0.01, records=7)
    assert Truth.load(truth).batch_size == 7


def test_defences_in_their_order(table, tmp_path, run):
    def observed(*defenses):
        words = [word for text in defenses for word in ("--defense", text)]
        run("simulate", "--data", table, "--model", "mlp:3-7-2", *words, "--out", tmp_path / "u")
        return load_update(tmp_path / "u")

    noise = "gaussian-noise:deviation=0.5"
    assert observed().noise is None
    assert observed("none").noise is None
    assert observed(noise).noise == 0.5
    assert observed("prune:share=0.9", noise).noise == 0.5
    pruned = observed(noise, "prune:share=0.9")
    assert pruned.noise is None
    assert int(pruned.observed["fc1.weight"].count_nonzero()) == 2
    assert observed("dp-sgd:clip=2,noise=0.5").noise == pytest.approx(0.5 * 2 / 16)
    assert set(observed("sign").observed["fc2.bias"].tolist()) <= {-1.0, 0.0, 1.0}


def test_help_names_every_defence(run):
    text = run("simulate", "--help").stdout
    assert not [name for name in DEFENSES if name not in text]
