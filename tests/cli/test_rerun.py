"""The verb that asks again: what it finds, what it refuses to read or run, and how it ends."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
import torch

from cli.material import CLASSES, FEATURES, WIDTH, save_hard_update, save_update
from gradaudit.capture import load_update
from gradaudit.cli.exit_codes import ExitCode
from gradaudit.cli.rerun import _exit_code
from gradaudit.evidence import RecordEvidence, Status
from gradaudit.rerunning import Rerun
from gradaudit.result import AuditResult, Repetition, Sameness

SPEC = f"mlp:{FEATURES}-{WIDTH}-{WIDTH}-{CLASSES}"


@pytest.fixture
def audited(run, tmp_path, monkeypatch):
    """A folder with an update and the result of its audit below it; the current folder."""
    monkeypatch.chdir(tmp_path)
    save_update(tmp_path)
    assert run("audit", "update.safetensors", "--out", "audit", "--seed", 7).exit_code == 0
    return tmp_path / "audit" / "result.json"


def change(path, **changes):
    """Change a result as somebody might who sends it to others."""
    value = json.loads(path.read_text("utf-8"))
    for name, item in changes.items():
        node = value
        *above, last = name.split("__")
        for key in above:
            node = node[key]
        node[last] = item
    path.write_text(json.dumps(value), "utf-8")


def test_the_same_again_bit_for_bit(audited, run):
    before = audited.read_bytes()
    done = run("rerun", audited, "--out", "again")
    assert done.exit_code == 0, done.output
    assert "The same result, bit for bit: 3 certified records, evidence and verdict." in done.stdout
    assert audited.read_bytes() == before
    first, second = (AuditResult.load(p) for p in (audited, "again/result.json"))
    assert torch.equal(first.records, second.records)
    # The device was left open, and is now where the first one ran.
    assert replace(second.request, device="auto") == first.request
    assert second.search.seed == 7


def test_as_json_and_quiet(audited, run):
    done = run("rerun", audited, "--json")
    value = json.loads(done.stdout)
    assert (value["schema"], value["sameness"]) == ("gradaudit.rerun", "identical")
    assert value["result"]["records_recovered"] == value["compared_records"] == 3
    quiet = run("rerun", audited, "--quiet")
    assert len(quiet.stdout.splitlines()) == 1


def test_what_was_given_is_asked_again(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_update(tmp_path, observe="delta", learning_rate=0.1)
    words = ("--model", SPEC, "--loss", "cross_entropy", "--attack", "halfspace", "--layer", "fc1")
    more = ("--input-shape", "3,2,4", "--mean", "0.5", "--submatrices", 1000, "--seconds", 99)
    run("audit", "update.safetensors", *words, *more, "--json-out", "r.json", "--discard-records")
    done = run("rerun", "r.json", "--out", "again")
    # Without records, their evidence to the last digit is what speaks for them.
    assert "The same result, bit for bit: evidence and verdict." in done.stdout
    assert not (tmp_path / "again" / "result.safetensors").exists()
    request = AuditResult.load("again/result.json").request
    assert replace(request, device="auto") == AuditResult.load("r.json").request
    assert (request.attack, request.layer, request.model.spec) == ("halfspace", "fc1", SPEC)
    assert (request.seconds, request.submatrices) == (99.0, 1000)
    assert request.capture.contains == "delta"
    assert request.capture.preprocessing.image_shape == (3, 2, 4)
    assert '"learning_rate": 0.1' in request.capture.step


def test_weights_after_and_before(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    update = load_update(save_update(tmp_path, observe="delta", learning_rate=0.1))
    torch.save(dict(update.weights), "before.pt")
    torch.save({name: w + update.delta[name] for name, w in update.weights.items()}, "after.pt")
    run("audit", "after.pt", "--weights", "before.pt", "--learning-rate", 0.1, "--out", "a")
    capture = AuditResult.load("a/result.json").request.capture
    assert (capture.update.name, capture.weights.name) == ("after.pt", "before.pt")
    assert capture.contains == "weights_after"
    assert run("rerun", "a/result.json").exit_code == 0
    # The same update in another file, which has its weights in it, will do as well.
    load_update("after.pt", "before.pt", learning_rate=0.1).save("whole.safetensors")
    again = run("rerun", "a/result.json", "--update", "whole.safetensors")
    assert "The same result, bit for bit" in again.stdout


def test_the_file_lies_elsewhere(audited, run, tmp_path, error, monkeypatch):
    (tmp_path / "kept").mkdir()
    (tmp_path / "update.safetensors").rename(tmp_path / "kept" / "sent.safetensors")
    line = error(run("rerun", audited))
    assert "found no 'update.safetensors'" in line
    assert "give it as --update FILE" in line
    assert run("rerun", audited, "--update", "kept/sent.safetensors").exit_code == 0
    # Beside the result, it is found from anywhere.
    shutil.copy("kept/sent.safetensors", audited.parent / "update.safetensors")
    monkeypatch.chdir(tmp_path / "kept")
    assert run("rerun", audited).exit_code == 0


def test_another_file_of_that_name_is_not_read(audited, run, tmp_path, error):
    save_update(tmp_path, seed=6)
    assert "another file of that name" in error(run("rerun", audited))
    line = error(run("rerun", audited, "--update", "update.safetensors"))
    assert "an update of other content" in line


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..", "", "a/b"])
def test_a_result_cannot_choose_a_folder(audited, run, error, name):
    change(audited, request__capture__update__name=name)
    assert "expected a file name without a folder" in error(run("rerun", audited))


def test_a_result_cannot_have_code_run(audited, run, tmp_path, error):
    (tmp_path / "hostile.py").write_text("open('ran', 'w').close()\n")
    model = {"spec": "hostile:make", "name": "x", "structure_sha256": "0"}
    change(audited, request__model=model)
    assert "whose code is not run unasked" in error(run("rerun", audited))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("spec", ["mlp:24-30000-30000-4", "vgg_small?num_classes=99999999"])
def test_a_result_cannot_ask_for_a_huge_network(audited, run, error, spec):
    change(audited, request__model={"spec": spec, "name": "x", "structure_sha256": "0"})
    assert "expected a network of" in error(run("rerun", audited))


def test_a_network_of_own_code_is_given_again(run, tmp_path, monkeypatch, error):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    save_update(tmp_path)
    (tmp_path / "own_network.py").write_text(
        "from gradaudit.models import mlp\n"
        f"def make(): return mlp({FEATURES}, [{WIDTH}, {WIDTH}], {CLASSES})\n"
        f"def other(): return mlp({FEATURES}, [{WIDTH}, {WIDTH}], {CLASSES}, activation='tanh')\n"
    )
    run("audit", "update.safetensors", "--model", "own_network:make", "--out", "a")
    assert "not run unasked" in error(run("rerun", "a/result.json"))
    assert run("rerun", "a/result.json", "--model", "own_network:make").exit_code == 0
    line = error(run("rerun", "a/result.json", "--model", "own_network:other"))
    assert "a network of another structure" in line


def test_results_that_do_not_say_what_was_asked(audited, run, error):
    change(audited, request=None)
    assert "a result that does not say what was asked" in error(run("rerun", audited))


def test_a_loss_of_own_code_needs_python(audited, run, error):
    change(audited, request__loss=None)
    assert "a function, which no file holds" in error(run("rerun", audited))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("request__attack", "guessing", "guessing"),
        ("request__seconds", -1.0, "budget.seconds"),
        ("request__capture__step", "{}", "an unknown kind of step"),
        ("request__capture__contains", "records", "contains"),
        ("request__seed", 2**64, "seed"),
        ("search__device", "moon", "device"),
    ],
)
def test_requests_that_no_audit_made(audited, run, error, name, value, message):
    change(audited, **{name: value})
    assert message in error(run("rerun", audited))


def test_nothing_that_is_read_is_overwritten(audited, run, error):
    line = error(run("rerun", audited, "--out", "audit"))
    assert "which is RESULT.json" in line


def test_another_verdict_is_another_result(audited, run):
    evidence = json.loads(audited.read_text("utf-8"))["evidence"]
    evidence[0]["recovered"] = False
    change(audited, status="partial", records_recovered=2, evidence=evidence)
    done = run("rerun", audited)
    assert done.exit_code == ExitCode.DIFFERENT
    assert "A different result: the status was 'partial' and is 'recovered'" in done.stdout


def test_rounding_leaves_the_verdict(audited, run):
    before = AuditResult.load(audited)
    # As another machine might have it: another order, other last digits.
    order = torch.tensor([2, 0, 1])
    before.records.copy_(before.records[order] * (1 + 1e-15))
    changed = AuditResult(
        **{name: getattr(before, name) for name in before.__dataclass_fields__}
        | {"evidence": tuple(before.evidence[i] for i in order)}
    )
    changed.save(audited)
    change(audited, search__versions={"torch": "2.6.0"})
    done = run("rerun", audited)
    assert done.exit_code == ExitCode.SAME_VERDICT
    assert "The same verdict; 3 certified records differ by at most" in done.stdout
    assert "torch 2.6.0 and" in done.stdout


@pytest.mark.parametrize(
    ("sameness", "hurried", "certified", "code"),
    [
        (Sameness.IDENTICAL, True, 0, ExitCode.DONE),
        (Sameness.SAME_VERDICT, False, 0, ExitCode.SAME_VERDICT),
        (Sameness.SAME_VERDICT, True, 2, ExitCode.SAME_VERDICT),
        # Two searches that were cut short and proved nothing confirm nothing.
        (Sameness.SAME_VERDICT, True, 0, ExitCode.UNFINISHED),
        (Sameness.DIFFERENT, True, 2, ExitCode.UNFINISHED),
        (Sameness.DIFFERENT, False, 2, ExitCode.DIFFERENT),
    ],
)
def test_the_exit_code_follows_from_what_could_be_compared(sameness, hurried, certified, code):
    evidence = tuple(RecordEvidence(True) for _ in range(certified))
    status = Status.PARTIAL if certified else Status.NOT_RECOVERED
    result = AuditResult(status, "Why.", "", evidence=evidence)
    repetition = Repetition(sameness, certified, None, (), (), hurried)
    assert _exit_code(Rerun(result, result, repetition)) is code


@pytest.mark.slow
def test_what_the_clock_ended_cannot_be_promised(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_hard_update(tmp_path)
    run("audit", "update.safetensors", "--attack", "spear", "--seconds", 1, "--out", "a")
    before = AuditResult.load("a/result.json")
    assert before.search.hurried
    done = run("rerun", "a/result.json", "--seconds", 2)
    # Nothing was found in either, so that nothing is there to be compared.
    assert done.exit_code == ExitCode.UNFINISHED, done.output
    assert "cannot be promised" in done.stdout
