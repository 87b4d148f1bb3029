from __future__ import annotations

import pytest
import torch

from gradaudit.evidence import Certificate, RecordEvidence, Status
from gradaudit.preprocessing import Preprocessing
from gradaudit.result import AuditResult
from gradaudit.truth import Truth

pytest.importorskip("matplotlib")
pytest.importorskip("PIL")

IMAGES = Preprocessing(image_shape=(3, 16, 16))


@pytest.fixture
def saved(tmp_path):
    """A result of two images, ``result.json``, and its truth, ``truth.safetensors``."""
    records = torch.rand(2, 768, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    result = AuditResult(
        Status.RECOVERED,
        "All.",
        "Aggregate securely.",
        layer="fc1",
        batch_size=2,
        records=records,
        evidence=(RecordEvidence(True), RecordEvidence(True)),
        certificate=Certificate("layer", "Explained."),
        preprocessing=IMAGES,
        update_sha256="ab" * 32,
    )
    result.save(tmp_path / "result.json")
    Truth(records.flip(0), torch.tensor([0, 1]), IMAGES).save(tmp_path / "truth.safetensors")
    return tmp_path


def test_a_page_is_written(saved, run):
    out = saved / "Bericht für alle.html"
    result = run("report", saved / "result.json", "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Written: {out}\n"
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_default_place_is_here(saved, run, monkeypatch):
    monkeypatch.chdir(saved)
    assert run("report", "result.json", "--quiet").output == ""
    assert (saved / "report.html").exists()


def test_records_are_redacted_unless_asked_for(saved, run):
    pages = {}
    for name, words in {"redacted": [], "shown": ["--show-records"]}.items():
        out = saved / f"{name}.html"
        run(
            "report",
            saved / "result.json",
            "--truth",
            saved / "truth.safetensors",
            "--out",
            out,
            *words,
        )
        pages[name] = out.read_text(encoding="utf-8")
    assert "redacted to 4 by 4" in pages["redacted"]
    assert "redacted to" not in pages["shown"]
    assert "original" in pages["shown"]


def test_the_salt_changes_fingerprints_and_may_come_from_the_environment(saved, run):
    def page(*words, **env):
        run("report", saved / "result.json", "--out", saved / "r.html", *words, env=env)
        return (saved / "r.html").read_text(encoding="utf-8")

    assert page("--salt", "x") == page(GRADAUDIT_SALT="x")
    assert page("--salt", "x") != page("--salt", "y")


def test_an_empty_salt_is_no_secret(saved, run, error):
    words = ["report", saved / "result.json", "--out", saved / "r.html", "--salt", ""]
    assert "--salt" in error(run(*words))
    assert not (saved / "r.html").exists()


def test_the_grid_needs_consent(saved, run, error):
    grid = saved / "grid.png"
    words = ["report", saved / "result.json", "--out", saved / "r.html", "--grid", grid]
    assert "--show-records" in error(run(*words))
    assert not grid.exists()
    assert run(*words, "--show-records").exit_code == 0
    assert grid.read_bytes()[1:4] == b"PNG"


def test_a_result_without_images_has_no_grid(saved, run, error):
    AuditResult.load(saved / "result.json").save(saved / "bare.json", keep_records=False)
    words = ["report", saved / "bare.json", "--out", saved / "r.html", "--show-records"]
    assert "no records" in error(run(*words, "--grid", saved / "g.png"))
    assert not (saved / "r.html").exists()


def test_inputs_are_not_written_over(saved, run, error):
    for name in ("result.json", "result.safetensors", "truth.safetensors"):
        before = (saved / name).read_bytes()
        words = ["--truth", saved / "truth.safetensors", "--out", saved / name]
        error(run("report", saved / "result.json", *words))
        assert (saved / name).read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 10_000, b'{"schema": "x"}', b"\x80\x02"])
def test_hostile_files_are_one_line(content, tmp_path, run, error):
    (tmp_path / "r.json").write_bytes(content)
    assert "r.json" in error(run("report", tmp_path / "r.json", "--out", tmp_path / "r.html"))
    assert not (tmp_path / "r.html").exists()


def test_missing_packages_are_one_line(saved, run, error, monkeypatch):
    for name in ("PIL", "PIL.Image"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    line = error(run("report", saved / "result.json", "--out", saved / "r.html"))
    assert "pip install 'gradaudit[report]'" in line


@pytest.mark.parametrize("name", ["truth.safetensors", "result.safetensors"])
def test_an_update_has_no_report(name, saved, run, error):
    line = error(run("report", saved / name))
    assert f"{name}: found a safetensors file, expected the JSON that an audit writes" in line
    assert "--out FOLDER" in line
