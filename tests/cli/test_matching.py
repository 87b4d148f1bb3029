from __future__ import annotations

import json

import pytest
import torch

from gradaudit.clients import FedSGD
from gradaudit.models import parse_model

SPEC = "mlp:12-20-4?activation=sigmoid&dtype=float64&init=normal"


@pytest.fixture
def update(tmp_path):
    inputs = torch.rand(2, 12, generator=torch.Generator().manual_seed(0)).double()
    sent, truth = FedSGD(parse_model(SPEC)).update(inputs[:1], [2])
    sent.save(tmp_path / "update.safetensors")
    truth.save(tmp_path / "truth.safetensors")
    both, _ = FedSGD(parse_model(SPEC)).update(inputs, [2, 0])
    both.save(tmp_path / "both.safetensors")
    return tmp_path / "update.safetensors"


def test_a_record_is_found_by_matching_gradients(run, update):
    truth = update.with_name("truth.safetensors")
    result = run("audit", update, "--model", SPEC, "--attack", "idlg", "--truth", truth)
    assert result.exit_code == 0, result.output
    assert "recovered from the whole network and certified" in result.stdout
    assert "1 within" in result.stdout


def test_settings_and_knowledge_reach_the_search(run, update):
    both = update.with_name("both.safetensors")
    words = ("--attack", "inverting-gradients", "--iterations", 7, "--restarts", 3)
    known = ("--batch-size", 2, "--labels", "0,2")
    result = run("audit", both, "--model", SPEC, *words, *known, "--json")
    found = json.loads(result.stdout)
    assert found["status"] == "not_recovered"
    assert found["search"]["counters"]["iterations"] == 7
    assert found["search"]["counters"]["restarts"] == 3
    assert len(found["approximate_evidence"]) == 2
    assert "labels given" in found["search"]["setting"]
    told = run("audit", both, "--model", SPEC, *words, *known)
    assert "2 records, with an unknown error" in " ".join(told.stdout.split())


def test_what_does_not_fit_is_refused(run, error, update):
    assert "--restarts" in error(run("audit", update, "--restarts", 2))
    wrong = run(
        "audit", update, "--model", SPEC, "--attack", "dlg", "--batch-size", 2, "--labels", "1"
    )
    assert "--labels: found 1 for a batch of 2" in error(wrong)
    several = run(
        "audit", update.with_name("both.safetensors"), "--model", SPEC, "--attack", "idlg"
    )
    assert "takes a batch of 1" in several.stdout


def test_the_result_and_its_report_name_all_layers(run, update, tmp_path):
    words = ("--attack", "idlg", "--model", SPEC, "--out", tmp_path / "out")
    told = run("audit", update, *words, "--report", tmp_path / "report.html")
    assert told.exit_code == 0, told.output
    assert "Layer all together" in " ".join(told.stdout.split())
    assert "all together" in (tmp_path / "report.html").read_text(encoding="utf-8")
    again = run("report", tmp_path / "out" / "result.json", "--out", tmp_path / "again.html")
    assert again.exit_code == 0, again.output
