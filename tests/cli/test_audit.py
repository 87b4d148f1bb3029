from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import resources

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from cli.material import CLASSES, FEATURES, WIDTH, save_hard_update, save_update
from gradaudit.clients import FedAvg
from gradaudit.evidence import Status
from gradaudit.models import mlp
from gradaudit.result import AuditResult
from gradaudit.truth import Truth
from gradaudit.update import LocalTraining


def test_the_verdict_and_nothing_of_the_records(update, run):
    result = run("audit", update)
    assert result.exit_code == 0, result.output
    first = result.stdout.splitlines()[0]
    assert first.startswith("Proven leak: all 3 distinct records")
    for words in ("fc1", "3 distinct records", "Records certified", "What to do", "not kept"):
        assert words in result.stdout
    assert "Record 1" not in result.stdout


def test_quiet_is_the_sentence(update, run):
    result = run("audit", update, "--quiet")
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr == ""


def test_the_gate(update, tmp_path, run):
    assert run("audit", update, "--fail-on-leak").exit_code == 1
    hard = tmp_path / "hard"
    hard.mkdir()
    save_hard_update(hard)
    words = ["audit", hard / "update.safetensors", "--attack", "spear", "--seconds", 1]
    result = run(*words, "--fail-on-leak")
    assert result.exit_code == (1 if "Proven leak" in result.stdout else 3)


def test_an_exhausted_budget(tmp_path, run):
    update = save_hard_update(tmp_path)
    for words in (["--seconds", 0.3], ["--submatrices", 10]):
        out = tmp_path / words[0]
        result = run("audit", update, "--attack", "spear", *words, "--out", out)
        assert result.exit_code == 3, result.output
        found = AuditResult.load(out / "result.json")
        assert found.status is not Status.RECOVERED
        assert "used up" in found.cause


def test_json_is_all_of_stdout_and_fits_the_schema(update, run):
    jsonschema = pytest.importorskip("jsonschema")
    path = resources.files("gradaudit").joinpath("schema/audit_result.schema.json")
    validator = jsonschema.Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))
    truth = update.with_name("truth.safetensors")
    result = run("audit", update, "--json", "--truth", truth, "--show-records")
    value = json.loads(result.stdout)
    validator.validate(value)
    assert value["leak_proven"]
    assert value["arrays"] is None
    assert result.stdout.isascii()
    assert "within" in result.stderr
    assert "Record 1" not in result.output
    assert run("audit", update, "--json", "--quiet").stderr == ""


def test_the_files(update, tmp_path, run):
    pytest.importorskip("matplotlib")
    truth = tmp_path / "truth.safetensors"
    words = ["--out", tmp_path / "o", "--truth", truth, "--report", tmp_path / "r.html"]
    result = run("audit", update, *words)
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "o").iterdir()}
    assert names == {"result.json", "result.safetensors", "comparison.json"}
    assert (tmp_path / "r.html").exists()
    found = AuditResult.load(tmp_path / "o" / "result.json")
    assert found.records.shape == (3, FEATURES)
    assert json.loads((tmp_path / "o" / "comparison.json").read_text())["exact_batch"]
    assert "3 within 1.00 \u00d7 10⁻⁶ of an original" in result.stdout
    assert (
        run("report", tmp_path / "o" / "result.json", "--out", tmp_path / "p.html").exit_code == 0
    )


def test_records_need_not_be_kept(update, tmp_path, run):
    run("audit", update, "--json-out", tmp_path / "r.json", "--discard-records")
    assert AuditResult.load(tmp_path / "r.json").records is None
    assert not (tmp_path / "r.safetensors").exists()


def test_the_captured_update_is_never_written_over(update, run, error):
    before = update.read_bytes()
    line = error(run("audit", update, "--json-out", update.with_suffix(".json")))
    assert "UPDATE" in line
    error(run("audit", update, "--report", update))
    error(run("audit", update, "--json-out", "r.safetensors"))
    error(run("audit", update, "--json-out", "r.json", "--out", "o"))
    error(run("audit", update, "--out", update))
    assert update.read_bytes() == before


def test_a_bad_truth_is_told_before_the_search(update, tmp_path, run, error, monkeypatch):
    monkeypatch.setattr("gradaudit.cli.search.audit", None)
    assert "truth" in error(run("audit", update, "--truth", update))
    assert "gone" in error(run("audit", update, "--truth", "gone"))
    bad = tmp_path / "t"
    Truth(torch.ones(3, 5), torch.tensor([0, 1, 2])).save(bad)
    line = error(run("audit", update, "--truth", bad, "--out", tmp_path / "o"))
    assert "--truth: found records of 5 values" in line
    assert "expected 24 values, which layer 'fc1' takes" in line
    Truth(torch.full((3, 24), float("nan")), torch.tensor([0, 1, 2])).save(bad)
    assert "finite" in error(run("audit", update, "--truth", bad))
    Truth(torch.ones(0, 24), torch.ones(0)).save(bad)
    assert "no record" in error(run("audit", update, "--truth", bad))


def test_inputs_of_an_inner_layer_are_not_compared_with_records(update, tmp_path, run):
    words = ["--layer", "fc2", "--truth", tmp_path / "truth.safetensors"]
    result = run("audit", update, *words, "--out", tmp_path / "o")
    assert result.exit_code == 0, result.output
    assert AuditResult.load(tmp_path / "o" / "result.json").layer == "fc2"
    assert "Not compared with the truth" in result.stdout
    assert not (tmp_path / "o" / "comparison.json").exists()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("3,32,32", "found 3,32,32 (3,072 values), expected 24 values"),
        ("0,4,6", "positive"),
        ("24", "3 numbers"),
    ],
)
def test_a_shape_that_does_not_fit_is_told_before_the_search(
    shape, expected, update, run, error, monkeypatch
):
    monkeypatch.setattr("gradaudit.cli.search.audit", None)
    line = error(run("audit", update, "--input-shape", shape))
    assert line.startswith("Error: --input-shape: found")
    assert expected in line


def test_shapes_that_would_fit_are_proposed(tmp_path, run, error):
    update = save_update(tmp_path, features=192)
    assert "such as 3,8,8" in error(run("audit", update, "--input-shape", "3,32,32"))


@pytest.mark.parametrize("how", [[], ["--quiet"], ["--json"], ["--json", "--quiet"]])
def test_a_loss_that_the_update_contradicts_is_a_warning(how, update, run):
    result = run("audit", update, "--loss", "mse", *how)
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Warning")]
    for words in ("loss mse, as given", "the layer alone", "3 of 3 records match no class"):
        assert words in line
    if "--json" in how:
        assert line.removeprefix("Warning: ") in json.loads(result.stdout)["assumptions"]
    for fitting in ([], ["--loss", "cross_entropy"], ["--loss", "auto"]):
        assert "Warning" not in run("audit", update, *fitting, *how).stderr


def test_errors_name_the_options(update, run, error):
    for words in (["--layer", "fc9"], ["--attack", "x"], ["--model", "mlp:5-3"]):
        assert error(run("audit", update, *words)).startswith(f"Error: {words[0]}: found")
    # The package's own words for it are another's: weights=FILE.
    save_file({"a": torch.ones(2, 2)}, update)
    assert "--weights FILE" in error(run("audit", update))
    assert "--out" in error(run("audit", update, "--out", ""))


@pytest.mark.parametrize("place", ["file/such/o", f"no/{'n' * 300}", "device/o"])
def test_a_place_that_cannot_be_written_is_told_before_the_search(
    place, update, tmp_path, run, error, monkeypatch
):
    monkeypatch.setattr("gradaudit.cli.search.audit", None)
    os.mkfifo(tmp_path / "device")
    (tmp_path / "file").touch()
    for words in (["--out", tmp_path / place], ["--report", tmp_path / place / "r.html"]):
        assert words[0] in error(run("audit", update, *words))
    assert "--report" in error(run("audit", update, "--report", tmp_path / "device"))
    assert not (tmp_path / "device").is_file()
    assert not (tmp_path / "no").exists()


@pytest.fixture
def plain(tmp_path):
    """Weights before, gradient and weights after, as PyTorch users save them."""
    torch.manual_seed(3)
    network = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, CLASSES)
    ).double()
    inputs = torch.randn(3, FEATURES, dtype=torch.float64)
    torch.nn.functional.cross_entropy(network(inputs), torch.tensor([0, 1, 3])).backward()
    torch.save(network.state_dict(), tmp_path / "before.pt")
    torch.save({n: p.grad for n, p in network.named_parameters()}, tmp_path / "gradient.pt")
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    optimiser.step()
    save_file(dict(network.state_dict()), tmp_path / "after.safetensors")
    return tmp_path


def test_a_pair_of_files_from_plain_pytorch(plain, run):
    result = run("audit", plain / "gradient.pt", "--weights", plain / "before.pt", "--fail-on-leak")
    assert result.exit_code == 1, result.output
    assert "all 3 distinct records" in result.stdout


def test_weights_after_with_a_learning_rate(plain, run):
    words = [plain / "after.safetensors", "--weights", plain / "before.pt"]
    for more in (["--learning-rate", 0.1], ["--contains", "weights_after"]):
        result = run("audit", *words, *more)
        assert "all 3 distinct records" in result.stdout, result.output


def test_a_network_of_ones_own(plain, run, monkeypatch):
    (plain / "my_network.py").write_text(
        "from torch import nn\n"
        "def make():\n"
        f"    return nn.Sequential(nn.Linear({FEATURES}, {WIDTH}), nn.ReLU(), "
        f"nn.Linear({WIDTH}, {CLASSES}))\n"
    )
    monkeypatch.chdir(plain)
    words = ["audit", "gradient.pt", "--weights", "before.pt", "--model", "my_network:make"]
    value = json.loads(run(*words, "--json").stdout)
    assert value["certificate"]["kind"] == "full_gradient"


def test_a_table_is_printed_in_its_columns_on_request(tmp_path, run):
    rows = "\n".join(
        f"{20 + i},{'baker' if i % 3 else 'nurse'},{1000 + 17 * i},{'high' if i % 2 else 'low'}"
        for i in range(30)
    )
    (tmp_path / "people.csv").write_text(f"age,job,salary,class\n{rows}\n")
    data = [f"--data={tmp_path / 'people.csv'}", "--dtype", "float64", "--batch-size", 2]
    data += ["--model", "mlp:4-100-2"]
    run("simulate", *data, "--out", tmp_path / "u", "--truth", tmp_path / "t", "--seed", 2)
    text = run("audit", tmp_path / "u").stdout
    assert "Proven leak: all 2" in text
    assert "baker" not in text
    text = run("audit", tmp_path / "u", "--show-records", "--truth", tmp_path / "t").stdout
    assert text.count("(certified)") == 2
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if name in ("age", "job", "salary"):
            recovered, original = value.strip().removesuffix(")").split(" (original: ")
            assert recovered == original
            assert recovered.replace(",", "") in rows


def test_images_are_said_to_be_images(tmp_path, run):
    update = save_update(tmp_path)
    words = ["--input-shape", "1,4,6", "--mean", "0.5", "--std", "0.25", "--show-records"]
    result = run("audit", update, *words, "--out", tmp_path / "o")
    assert "The records are images" in result.stdout
    preprocessing = AuditResult.load(tmp_path / "o" / "result.json").preprocessing
    assert preprocessing.image_shape == (1, 4, 6)
    assert (preprocessing.mean, preprocessing.std) == ((0.5,), (0.25,))


class Exploit:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize("kind", ["pickle", "garbage", "empty", "cut", "folder", "gone"])
def test_hostile_files_are_one_line(kind, update, tmp_path, run, error, capfd):
    file = tmp_path / f"{kind}.pt"
    if kind == "pickle":
        torch.save({"weights": Exploit()}, file)
    elif kind == "cut":
        file.write_bytes(update.read_bytes()[:1000])
    elif kind == "folder":
        file.mkdir()
    elif kind != "gone":
        file.write_bytes(b"" if kind == "empty" else b"\x1b]0;x\x07" * 100)
    error(run("audit", file))
    assert "executed" not in capfd.readouterr().out


def test_values_that_are_not_finite_are_one_line(update, tmp_path, run, error):
    with safe_open(update, "pt") as stream:
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        metadata = stream.metadata()
    tensors["gradient/fc1.weight"][2, 3] = float("nan")
    save_file(tensors, tmp_path / "nan.safetensors", metadata=metadata)
    assert "1 of 1,920 values not finite" in error(run("audit", tmp_path / "nan.safetensors"))


def test_names_from_a_hostile_file_are_text(tmp_path, run):
    weights = {"[red]a\x1b[2J.weight": torch.randn(40, 10), "[red]a\x1b[2J.bias": torch.randn(40)}
    torch.save({"weights": weights, "gradient": weights}, tmp_path / "u.pt")
    result = run("audit", tmp_path / "u.pt", "--seconds", 2)
    assert "\x1b" not in result.output
    assert "Traceback" not in result.output


def test_as_a_process_in_a_pipe_with_a_path_of_any_alphabet(tmp_path, spawn):
    folder = tmp_path / "Prüfung 記録 [red]"
    folder.mkdir()
    update = save_update(folder)
    done = spawn("audit", update, "--out", folder / "ö", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\\u8a18" in done.stdout
    assert (folder / "ö" / "result.json").exists()


@pytest.mark.skipif(os.name != "posix", reason="pipes of this kind are those of POSIX")
@pytest.mark.parametrize("words", [["--json"], []])
def test_a_gate_works_when_nobody_reads(words, update):
    process = subprocess.Popen(
        [sys.executable, "-m", "gradaudit", "audit", update, "--fail-on-leak", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, b"")


def test_records_are_no_update(update, tmp_path, run, error):
    line = error(run("audit", tmp_path / "truth.safetensors"))
    assert "found the truth of a simulated client" in line
    assert "expected an update" in line
    run("audit", update, "--out", tmp_path / "o")
    assert "an audit recovered" in error(run("audit", tmp_path / "o" / "result.safetensors"))


def test_a_shape_fits_one_of_the_layers_where_they_are_no_chain(tmp_path, run, error):
    weights = {"a.weight": torch.randn(40, 24), "b.weight": torch.randn(40, 30)}
    for layers, fails in (({}, True), ({"conv.weight": torch.randn(4, 3, 3, 3)}, False)):
        update = tmp_path / "u.pt"
        tensors = weights | layers
        gradient = {name: torch.randn_like(weight) for name, weight in tensors.items()}
        torch.save({"weights": tensors, "gradient": gradient}, update)
        result = run("audit", update, "--input-shape", "3,32,32", "--seconds", 1)
        if fails:
            line = error(result)
            assert "found 3,32,32 (3,072 values), expected 24 values, which layer 'a' takes" in line
            assert "30 values, which layer 'b' takes" in line
        else:
            assert result.exit_code == 0, result.output
        assert run("audit", update, "--input-shape", "1,5,6", "--seconds", 1).exit_code == 0


def files_of_training(folder):
    """Weights before and after a little local training, as a server would store them."""
    network = mlp(FEATURES, [WIDTH, WIDTH], CLASSES, seed=1)
    inputs = torch.randn(4, FEATURES, generator=torch.Generator().manual_seed(5))
    training = LocalTraining(1e-3, epochs=2)
    client = FedAvg(network, training=training, dtype="float64")
    update, _ = client.update(inputs, torch.tensor([0, 1, 2, 3]))
    after = {name: update.weights[name] + change for name, change in update.delta.items()}
    torch.save(dict(update.weights), folder / "before.pt")
    torch.save(after, folder / "after.pt")
    return [folder / "after.pt", "--weights", folder / "before.pt"]


def test_local_training_and_noise_reach_the_audit(tmp_path, run):
    files = files_of_training(tmp_path)
    words = ["--local-epochs", 2, "--local-batch-size", 4, "--momentum", 0.5, "--noise", 0.25]
    result = run("audit", *files, *words, "--attack", "rgap", "--json")
    lines = json.loads(result.stdout)["assumptions"]
    (line,) = (each for each in lines if "FedAvg" in each)
    for part in ("2 epochs in batches of 4 records", "momentum 0.5", "deviation 0.25"):
        assert part in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--optimizer", "adam"], "'adam'"),
        (["--weight-decay", "0.1"], "learning rate"),
        (["--local-epochs", "2", "--attack", "rgap"], "2 local steps"),
    ],
)
def test_how_a_client_trained_may_rule_an_attack_out(words, said, tmp_path, run):
    result = run("audit", *files_of_training(tmp_path), *words)
    assert result.exit_code == 0, result.output
    assert "does not apply" in result.stdout
    assert said in result.stdout


def test_what_the_file_says_is_not_contradicted(tmp_path, run, error):
    path = save_update(tmp_path)
    assert "one gradient" in error(run("audit", path, "--local-epochs", 2))
    assert "--noise: found -1.0" in error(run("audit", path, "--noise", -1))
    assert "--momentum: found 2.0" in error(run("audit", path, "--momentum", 2))
