from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from bulk.material import WIDTH, capture, make_update

from cli.material import save_hard_update
from gradaudit.bulk import AuditSettings
from gradaudit.capture.load import load_update
from gradaudit.flower import captures as flower
from gradaudit.result import AuditResult

NAMES = ["a.safetensors", "b.safetensors"]


@pytest.fixture
def captures(tmp_path):
    return capture(tmp_path / "captures", NAMES)


def summary(out):
    return json.loads((out / "summary.json").read_text(encoding="utf-8"))


def test_a_folder(captures, tmp_path, run):
    out = tmp_path / "out"
    result = run("audit", captures, "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "Proven leaks in 2 of 2 audited updates."
    assert {path.name for path in out.iterdir() if path.name[0] != "."} == {
        "results",
        "rows",
        "summary.csv",
        "summary.html",
        "summary.json",
    }
    assert "Finished before" not in result.stdout
    assert "Finished before" in run("audit", captures, "--out", out).stdout
    assert run("audit", captures, "--out", out, "--quiet").output.count("\n") == 1
    assert run("audit", captures, "--out", out, "--fail-on-leak").exit_code == 1
    value = run("audit", captures, "--out", out, "--json")
    assert json.loads(value.stdout) == summary(out)
    assert value.stderr.startswith("Written: ")
    assert run("audit", captures, "--out", out, "--json", "--quiet").stderr == ""


def test_the_worst_leaks_are_named(tmp_path, run):
    names = [f"{letter}.safetensors" for letter in "abcdefg"]
    result = run("audit", capture(tmp_path / "captures", names), "--out", tmp_path / "out")
    lines = [line for line in result.stdout.splitlines() if line.startswith("Leak: ")]
    assert lines[0] == "Leak: a.safetensors: 1 of 1 records recovered"
    assert len(lines) == 5
    assert f"And 2 more, in {tmp_path / 'out' / 'summary.html'}." in result.stdout
    quiet = run("audit", tmp_path / "captures", "--out", tmp_path / "out", "--quiet")
    assert "Leak: " not in quiet.stdout


def test_leaks_are_told_from_the_most_records_on(tmp_path, capsys):
    from gradaudit.bulk import Row, Summary
    from gradaudit.cli.bulk_run import _print_leaks
    from gradaudit.cli.terminal import output

    rows = (
        Row("few", "partial", records_recovered=2, batch_size=9),
        Row("none", "not_recovered", batch_size=9),
        Row("many\x1b[2J", "recovered", records_recovered=9, batch_size=9),
    )
    _print_leaks(output(), Summary(rows), tmp_path)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Leak: many\\x1b[2J: 9 of 9 records recovered"
    assert second == "Leak: few: 2 of 9 records recovered"


def test_a_pattern_files_and_a_manifest(captures, tmp_path, run):
    (captures / "m.json").write_text('[{"update": "a.safetensors", "noise": 0}]')
    words = {
        "pattern": [captures / "*.safetensors"],
        "files": [captures / name for name in NAMES],
        "manifest": [captures / "m.json"],
    }
    for name, given in words.items():
        result = run("audit", *given, "--out", tmp_path / name, "--quiet")
        assert result.exit_code == 0, result.output
    assert len(summary(tmp_path / "files")["rows"]) == 2
    assert summary(tmp_path / "pattern") == summary(tmp_path / "files") | {
        "rows": [
            new | {"created": old["created"], "seconds": old["seconds"]}
            for new, old in zip(
                summary(tmp_path / "files")["rows"],
                summary(tmp_path / "pattern")["rows"],
                strict=True,
            )
        ]
    }
    assert [row["name"] for row in summary(tmp_path / "manifest")["rows"]] == ["a.safetensors"]


def test_options_reach_every_audit(captures, tmp_path, run, monkeypatch):
    asked = []

    def remember(self, update, control):
        asked.append((self, update.noise, update.preprocessing, control.budget.seconds))
        return whole(self, update, control)

    whole = AuditSettings.audit
    monkeypatch.setattr(AuditSettings, "audit", remember)
    result = run(
        "audit",
        captures,
        *("--out", tmp_path / "out", "--seconds", 7, "--submatrices", 99, "--seed", 5),
        *("--attack", "closed_form", "--layer", "fc1", "--loss", "mse", "--noise", 0),
        *("--input-shape", "1,2,3", "--mean", 0.5, "--std", 0.25, "--device", "cpu"),
        *("--model", f"mlp:6-{WIDTH}-3", "--discard-records"),
    )
    assert result.exit_code == 0, result.output
    settings, noise, preprocessing, seconds = asked[0]
    assert settings == AuditSettings(
        model=f"mlp:6-{WIDTH}-3",
        loss="mse",
        layer="fc1",
        attack="closed_form",
        seed=5,
        device="cpu",
        seconds=7.0,
        submatrices=99,
        keep_records=False,
    )
    assert (noise, preprocessing.image_shape, preprocessing.mean, seconds) == (
        0,
        (1, 2, 3),
        (0.5,),
        7.0,
    )
    assert not list((tmp_path / "out").rglob("*.safetensors"))
    found = AuditResult.load(tmp_path / "out" / "results" / "a.json")
    assert found.search.seed == 5


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--out", ""], "--out"),
        ([], "--out: found none"),
        (["--out", "o", "--truth", "t"], "--truth: found 't' with several updates"),
        (["--out", "o", "--report", "r.html"], "see --out and --reports"),
        (["--out", "o", "--json-out", "r.json"], "--json-out"),
        (["--out", "o", "--show-records"], "--reports beside it"),
        (["--out", "o", "--attack", "magic"], "--attack"),
        (["--out", "o", "--batch-size", "3"], "--batch-size"),
        (["--out", "o", "--model", "mlp:3"], "--model"),
        (["--out", "o", "--momentum", "2"], "--momentum"),
        (["--out", "o", "--total-seconds", "-1"], "--total-seconds"),
        (["--out", "o", "--engine", "in-process", "--workers", "2"], "--workers"),
    ],
)
def test_what_does_not_fit_is_one_line(words, expected, captures, tmp_path, run, error):
    words = [tmp_path / "o" if word == "o" else word for word in words]
    assert expected in error(run("audit", captures, *words))
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("words", [["--reports"], ["--again"], ["--total-seconds", "3"]])
def test_a_single_update_has_none_of_it(words, captures, run, error):
    assert "several updates" in error(run("audit", captures / "a.safetensors", *words))


def test_what_is_not_readable_is_told_and_fails_the_gate(captures, tmp_path, run):
    (captures / "notes.txt").write_text("words")
    assert run("audit", captures, "--out", tmp_path / "o").exit_code == 0
    (captures / "cut.pt").write_bytes(b"PK\x03\x04")
    result = run("audit", captures, "--out", tmp_path / "o", "--quiet")
    assert result.exit_code == 2
    assert result.stdout.count("\n") == 1
    assert result.stderr.startswith("Not audited: cut.pt: Found ")
    statuses = summary(tmp_path / "o")["totals"]["statuses"]
    assert statuses == {"recovered": 2, "unreadable": 1, "not_an_update": 1}
    assert run("audit", captures, "--out", tmp_path / "o", "--fail-on-leak").exit_code == 1
    for path in captures.glob("*.safetensors"):
        path.unlink()
    (captures / "cut.pt").unlink()
    assert run("audit", captures, "--out", tmp_path / "none").exit_code == 2


def test_a_budget_that_ends_is_unfinished(tmp_path, run):
    save_hard_update(tmp_path)
    (tmp_path / "truth.safetensors").unlink()
    words = ["--attack", "spear", "--submatrices", 10, "--out", tmp_path / "o"]
    result = run("audit", tmp_path / "*.safetensors", *words)
    assert result.exit_code == 3, result.output


def test_an_error_of_the_program_is_told(captures, tmp_path, run, monkeypatch):
    def broken(self, update, control):
        raise ZeroDivisionError("no way")

    monkeypatch.setattr(AuditSettings, "audit", broken)
    result = run("audit", captures, "--out", tmp_path / "o")
    assert result.exit_code == 70
    assert "Not audited: a.safetensors: ZeroDivisionError: no way" in result.stderr


def test_reports_are_written_once_and_redacted(tmp_path, run):
    pytest.importorskip("matplotlib")
    captures, out = capture(tmp_path / "captures", ["a.safetensors"]), tmp_path / "o"
    words = ["audit", captures, "--out", out]

    def written():
        return {path.name: path.stat().st_mtime_ns for path in (out / "results").glob("*.html")}

    assert run(*words, "--reports").exit_code == 0
    pages = written()
    assert set(pages) == {"a.html"}
    assert 'href="./results/a.html"' in (out / "summary.html").read_text(encoding="utf-8")
    run(*words, "--reports")
    assert pages == written()
    # Pages with the records never take the place of those without.
    run(*words, "--reports", "--show-records")
    assert set(written()) == {"a.html", "a+records.html"}
    assert pages.items() <= written().items()
    assert "results/a%2Brecords.html" in (out / "summary.html").read_text(encoding="utf-8")
    # They would be of another result than that which is there now.
    make_update(9).save(captures / "a.safetensors")
    run(*words)
    assert not written()


def test_what_flower_and_opacus_keep_is_a_folder_of_updates(tmp_path, run):
    folder = flower.prepare_folder(tmp_path / "captures")
    for node in (3, 5):
        path = flower.capture(make_update(node), folder, 1, node, 1)
        assert load_update(path).sha256() == make_update(node).sha256()
    make_update(1).save(folder / "step-00001.safetensors", notes={"noise": "none"})
    result = run("audit", folder, "--out", tmp_path / "o", "--quiet")
    assert result.exit_code == 0, result.output
    assert sorted(path.stem for path in (tmp_path / "o" / "results").glob("*.json")) == [
        "round-0001-node-3",
        "round-0001-node-5",
        "step-00001",
    ]


@pytest.mark.skipif(os.name != "posix", reason="signals of this kind are those of POSIX")
def test_a_killed_process_is_resumed_and_a_stopped_one_says_how(tmp_path, run, monkeypatch):
    captures = capture(tmp_path / "captures", NAMES)
    (tmp_path / "hard").mkdir()
    # After the others by its name, and at work until it is stopped.
    save_hard_update(tmp_path / "hard").rename(captures / "z.safetensors")
    out = tmp_path / "out"
    words = [captures, "--out", out, "--attack", "spear", "--seconds", "none"]
    command = [sys.executable, "-m", "gradaudit", "audit", *words, "--submatrices", "none"]

    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    until = time.monotonic() + 120
    while not all((out / "rows" / f"{name}.json").exists() for name in "ab"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    process.kill()
    process.communicate()
    before = {path: path.stat().st_mtime_ns for path in (out / "rows").iterdir()}

    # When this process has the folder, and is past the check of what is finished there.
    at_work, whole = threading.Event(), AuditSettings.audit

    def audited(self, update, control):
        at_work.set()
        return whole(self, update, control)

    monkeypatch.setattr(AuditSettings, "audit", audited)

    def stop():
        assert at_work.wait(120)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop)
    thread.start()
    result = run(*command[3:])
    thread.join()
    assert result.exit_code == 3, result.output
    assert "1 left to be audited" in result.stdout
    assert "The same command goes on with it" in result.stdout
    assert re.search("Finished before +2", result.stdout)
    assert {path: path.stat().st_mtime_ns for path in (out / "rows").iterdir()} == before
    assert [row["status"] for row in summary(out)["rows"]] == ["recovered", "recovered", "not_done"]
