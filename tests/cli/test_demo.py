from __future__ import annotations

import json

import pytest

from gradaudit.capture import load_update
from gradaudit.evidence import Status
from gradaudit.result import AuditResult

for package in ("skimage", "sklearn", "PIL", "matplotlib"):
    pytest.importorskip(package)

FILES = {
    "comparison.json",
    "records.png",
    "report-redacted.html",
    "report.html",
    "result.json",
    "result.safetensors",
    "truth.safetensors",
    "update.safetensors",
}


def test_the_photos_come_out_of_the_gradient(tmp_path, run):
    out = tmp_path / "dämo"
    result = run("demo", "--out", out, "--batch-size", 4, "--width", 200, "--seed", 1)
    assert result.exit_code == 0, result.output
    assert "Proven leak: all 4 distinct records" in result.stdout
    assert {path.name for path in out.iterdir()} == FILES
    found = AuditResult.load(out / "result.json")
    assert found.status is Status.RECOVERED
    # The audit saw the file, and nothing else.
    assert found.update_sha256 == load_update(out / "update.safetensors").sha256()
    assert list(found.source) == ["update.safetensors"]
    comparison = json.loads((out / "comparison.json").read_text())
    assert comparison["exact_batch"]
    assert comparison["mean_psnr"] > 60
    assert "redacted to 4 by 4" in (out / "report-redacted.html").read_text(encoding="utf-8")
    assert "redacted to" not in (out / "report.html").read_text(encoding="utf-8")


def test_the_budget_ends_it(tmp_path, run):
    words = ["--batch-size", 30, "--width", 100, "--seconds", 0.5, "--quiet"]
    result = run("demo", "--out", tmp_path, *words)
    assert result.exit_code == 3, result.output
    assert len(result.stdout.splitlines()) == 1
    assert (tmp_path / "result.json").exists()


def test_missing_packages_are_noticed_before_anything_is_made(tmp_path, run, error, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    line = error(run("demo", "--out", tmp_path / "d"))
    assert "pip install 'gradaudit[report]'" in line
    assert not (tmp_path / "d").exists()
