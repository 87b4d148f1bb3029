from __future__ import annotations

import json

import pytest
from safetensors import SafetensorError

from bulk.material import FEATURES, capture, findings, make_update
from gradaudit.auditing import audit
from gradaudit.budget import Budget, Control
from gradaudit.bulk import AuditSettings, Reading, audit_many, run
from gradaudit.engine import InProcess
from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.result import AuditResult

NAMES = ["a.safetensors", "b.safetensors", "sub/ü.safetensors"]


@pytest.fixture
def captures(tmp_path):
    return capture(tmp_path / "captures", NAMES)


class Counting(InProcess):
    """An engine that says what it was given to do."""

    def __init__(self):
        super().__init__()
        self.keys = []

    def run(self, units, control):
        self.keys.append([unit.key for unit in units])
        return super().run(units, control)


def again(captures, out, **options):
    """What a run audits, and its summary."""
    engine = Counting()
    summary = audit_many(captures, out, engine=engine, **options)
    return engine.keys[0], summary


def test_each_result_is_what_its_file_alone_gives(captures, tmp_path):
    summary = audit_many(captures, tmp_path / "out")
    assert [row.name for row in summary.rows] == NAMES
    assert summary.sentence() == "Proven leaks in 3 of 3 audited updates."
    for seed, row in enumerate(summary.rows):
        found = AuditResult.load(tmp_path / "out" / row.result)
        alone = audit(make_update(seed))
        assert found.records.equal(alone.records)
        assert (found.cause, found.update_sha256) == (alone.cause, alone.update_sha256)
        assert (row.records_recovered, row.batch_size, row.layer) == (1, 1, "fc1")
    value = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert value == summary.to_json()


def test_what_is_finished_is_not_audited_again(captures, tmp_path):
    out = tmp_path / "out"
    audit_many(captures, out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    todo, summary = again(captures, out)
    assert todo == []
    assert summary.reused == 3
    # The summary is a view: made again from the rows alone, it is the same to the byte.
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert again(captures, out, again=True)[0] == NAMES


def test_what_is_no_update_by_its_first_bytes_needs_no_worker(captures, tmp_path):
    (captures / "notes.txt").write_text("words")
    (captures / "cut.pt").write_bytes(b"GGUF")
    todo, summary = again(captures, tmp_path / "out")
    assert todo == NAMES
    told = {row.name: (row.status, row.cause) for row in summary.rows if not row.audited}
    assert {name: status for name, (status, _) in told.items()} == {
        "cut.pt": "unreadable",
        "notes.txt": "not_an_update",
    }
    # In the words of a worker, which would have found the same.
    assert told["cut.pt"][1].startswith("Found a GGUF file, expected a safetensors")
    assert again(captures, tmp_path / "out")[0] == []


def test_another_setting_is_another_result(captures, tmp_path):
    out = tmp_path / "out"
    audit_many(captures, out)
    settings = AuditSettings(keep_records=False)
    assert again(captures, out, settings=settings)[0] == NAMES
    assert again(captures, out, settings=settings)[0] == []
    # Records of the earlier run are personal data, and nobody wants them any more.
    assert not list((out / "results").glob("*.safetensors"))


def test_another_content_another_reading_and_another_version(captures, tmp_path, monkeypatch):
    out = tmp_path / "out"
    audit_many(captures, out)
    make_update(77).save(captures / "b.safetensors")
    assert again(captures, out)[0] == ["b.safetensors"]
    shape = Preprocessing((1, 2, 3))
    assert again(captures, out, reading=Reading(preprocessing=shape))[0] == NAMES
    monkeypatch.setattr("gradaudit.bulk.job.__version__", "999")
    assert again(captures, out, reading=Reading(preprocessing=shape))[0] == NAMES


@pytest.mark.parametrize(
    ("path", "harm"),
    [
        ("results/a.json", lambda p: p.unlink()),
        ("results/a.json", lambda p: p.write_text(p.read_text() + " ")),
        ("results/a.safetensors", lambda p: p.unlink()),
        ("results/a.safetensors", lambda p: p.write_bytes(p.read_bytes()[:-1])),
        ("rows/a.json", lambda p: p.unlink()),
        ("rows/a.json", lambda p: p.write_text("{")),
        ("rows/a.json", lambda p: p.write_text("[" * 100_000)),
        ("rows/a.json", lambda p: p.write_text(p.read_text().replace("results/a", "../a"))),
        ("rows/a.json", lambda p: p.write_text(p.read_text().replace('"recovered"', '"fine"'))),
        ("rows/a.json", lambda p: p.write_text(p.read_text().replace('"a.json"', '"b.json"'))),
    ],
)
def test_a_damaged_result_is_made_again(path, harm, captures, tmp_path):
    out = tmp_path / "out"
    audit_many(captures, out)
    harm(out / path)
    todo, summary = again(captures, out)
    assert todo == ["a.safetensors"]
    assert again(captures, out)[0] == []
    assert summary.leaks == 3


def test_what_cannot_be_read_ends_nothing(captures, tmp_path):
    (captures / "notes.txt").write_text("words")
    (captures / "cut.safetensors").write_bytes((captures / "a.safetensors").read_bytes()[:200])
    (captures / "empty.pt").write_bytes(b"")
    (captures / "gone.safetensors").symlink_to("nowhere")
    import torch

    from gradaudit.truth import Truth

    Truth(torch.ones(1, FEATURES), torch.tensor([0])).save(captures / "truth.safetensors")
    summary = audit_many(captures, tmp_path / "out", reading=Reading(noise=0.0))
    found = {row.name: row for row in summary.rows}
    assert {name: row.status for name, row in found.items() if not row.audited} == {
        "cut.safetensors": "unreadable",
        "empty.pt": "unreadable",
        "gone.safetensors": "unreadable",
        "notes.txt": "not_an_update",
        "truth.safetensors": "not_an_update",
    }
    assert found["empty.pt"].cause == "Found an empty file, expected a file with content."
    assert (summary.updates, summary.audited) == (6, 3)
    # A name that was given is never something else, nor a cause where the auditor keeps files.
    named = audit_many([captures / "notes.txt", captures / "a.safetensors"], tmp_path / "two")
    assert named.count("unreadable") == 1
    assert str(tmp_path) not in json.dumps(summary.to_json()) + json.dumps(named.to_json())


def test_a_setting_that_does_not_fit_an_update_is_its_row(captures, tmp_path):
    summary = audit_many(captures, tmp_path / "out", settings=AuditSettings(layer="fc9"))
    assert summary.count("unreadable") == 3
    assert "fc9" in summary.rows[0].cause
    shape = Reading(preprocessing=Preprocessing((3, 32, 32)))
    summary = audit_many(captures, tmp_path / "out", reading=shape)
    assert summary.count("unreadable") == 3
    assert "3,32,32" in summary.rows[0].cause


@pytest.mark.parametrize(
    "settings",
    [
        {"attack": "magic"},
        {"seed": -1},
        {"loss": "hope"},
        {"model": "mlp:3"},
        {"invert_features": True},
        {"seconds": 0.0},
        {"batch_size": 3},
    ],
)
def test_a_setting_that_fits_no_update_is_an_error(settings, captures, tmp_path):
    with pytest.raises(InputError):
        audit_many(captures, tmp_path / "out", settings=AuditSettings(**settings))
    assert not (tmp_path / "out").exists()


def test_an_interrupted_search_is_not_kept(captures, tmp_path, monkeypatch):
    out = tmp_path / "out"
    control = Control()
    whole = AuditSettings.audit

    def stopped(self, update, limited):
        if (out / "rows" / "a.json").exists():
            limited.interrupt()
        return whole(self, update, limited)

    monkeypatch.setattr(AuditSettings, "audit", stopped)
    summary = audit_many(captures, out, control=control)
    assert [row.status for row in summary.rows] == ["recovered", "not_done", "not_done"]
    assert summary.ended == "interrupted"
    assert not summary.to_json()["complete"]
    monkeypatch.undo()
    assert again(captures, out)[0] == NAMES[1:]


def test_the_time_for_all(captures, tmp_path, monkeypatch):
    whole = AuditSettings.audit

    def slow(self, update, control):
        while not control.interrupted:
            pass
        return whole(self, update, control)

    monkeypatch.setattr(AuditSettings, "audit", slow)
    summary = audit_many(captures, tmp_path / "out", total_seconds=0.05)
    assert summary.ended == "the time for all updates was up"
    assert summary.count("not_done") == 3
    with pytest.raises(InputError, match="total_seconds"):
        audit_many(captures, tmp_path / "out", total_seconds=0.0)


def test_a_budget_that_ended_is_a_result(captures, tmp_path, monkeypatch):
    from cli.material import save_hard_update

    captures = tmp_path / "hard"
    captures.mkdir()
    save_hard_update(captures)
    (captures / "truth.safetensors").unlink()
    settings = AuditSettings(attack="spear", submatrices=10)
    summary = audit_many(captures, tmp_path / "out", settings=settings)
    assert "used up" in summary.rows[0].cause
    assert again(captures, tmp_path / "out", settings=settings)[0] == []
    more = AuditSettings(attack="spear", submatrices=11)
    assert len(again(captures, tmp_path / "out", settings=more)[0]) == 1


def test_an_error_of_the_program_is_a_row(captures, tmp_path, monkeypatch):
    whole = AuditSettings.audit

    def broken(self, update, control):
        if update.source.keys() == {"b.safetensors"}:
            raise ZeroDivisionError("no\nway")
        return whole(self, update, control)

    monkeypatch.setattr(AuditSettings, "audit", broken)
    summary = audit_many(captures, tmp_path / "out")
    assert [row.status for row in summary.rows] == ["recovered", "failed", "recovered"]
    assert summary.rows[1].cause == "ZeroDivisionError: no way"
    monkeypatch.undo()
    assert again(captures, tmp_path / "out")[0] == ["b.safetensors"]


def test_a_folder_that_cannot_be_written_ends_the_run(captures, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results").write_text("in the way")
    with pytest.raises(InputError, match="results"):
        audit_many(captures, tmp_path / "out")
    (tmp_path / "no_folder").write_text("")
    with pytest.raises(InputError, match="no_folder"):
        audit_many(captures, tmp_path / "no_folder")
    with pytest.raises(InputError, match=r"captures"):
        audit_many(captures / "a.safetensors", captures)


def test_a_disk_that_is_full_ends_the_run(captures, tmp_path, monkeypatch):
    def full(tensors, path, metadata):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("gradaudit.tensorfile.save_file", full)
    with pytest.raises(InputError, match=r"a\.safetensors: found I/O error: No space left"):
        audit_many(captures, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == [".lock"]


def test_progress_counts_updates_and_leaks(captures, tmp_path):
    heard = []
    control = Control(Budget(None, None), heard.append)
    audit_many(captures, tmp_path / "out", control=control)
    phases = list(dict.fromkeys(progress.phase for progress in heard))
    assert phases == [
        "0 of 3, 0 proven leaks",
        "1 of 3, 1 proven leak",
        "2 of 3, 2 proven leaks",
        "3 of 3, 3 proven leaks",
    ]
    assert heard[-1].seconds_left == 0


def test_progress_goes_on_while_an_update_takes_long(captures, tmp_path, monkeypatch):
    heard = []
    monkeypatch.setattr(run, "BEAT_SECONDS", 0.01)
    audit_many(captures, tmp_path / "out", control=Control(listener=heard.append))
    assert len(heard) > 10


def test_pairs_with_the_weights_of_all(tmp_path):
    from safetensors.torch import save_file

    folder = tmp_path / "pairs"
    folder.mkdir()
    for seed in (0, 1):
        update = make_update(0)
        scaled = {name: t * (seed + 1) for name, t in update.gradient.items()}
        save_file(scaled, folder / f"client-{seed}.safetensors")
    save_file(dict(update.weights), folder / "before.safetensors")
    reading = Reading(weights=str(folder / "before.safetensors"), contains="gradient")
    todo, summary = again(folder, tmp_path / "out", reading=reading)
    assert todo == ["client-0.safetensors", "client-1.safetensors"]
    assert summary.leaks == 2
    assert again(folder, tmp_path / "out", reading=reading)[0] == []
    save_file({n: t + 1 for n, t in update.weights.items()}, folder / "before.safetensors")
    assert len(again(folder, tmp_path / "out", reading=reading)[0]) == 2


def test_the_same_on_every_engine(captures, tmp_path):
    from gradaudit.engine import Processes

    audit_many(captures, tmp_path / "one")
    with Processes(workers=1) as engine:
        audit_many(captures, tmp_path / "two", engine=engine)
    assert findings(tmp_path / "one") == findings(tmp_path / "two")
