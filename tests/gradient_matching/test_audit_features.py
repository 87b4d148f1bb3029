"""An audit that goes on from the features behind a convolution to the images."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.cli.program import program
from gradaudit.clients import FedSGD
from gradaudit.errors import InputError
from gradaudit.evidence import Status
from gradaudit.preprocessing import Preprocessing
from gradaudit.report.records import view_records
from gradaudit.result import AuditResult

SHAPE = (1, 8, 8)


@pytest.fixture(scope="module")
def case():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(256, 90), nn.ReLU(),
        nn.Linear(90, 4),
    ).double()  # fmt: skip
    ramp = torch.linspace(0, 1, 8).double()
    images = torch.stack([ramp.expand(8, 8), ramp.flip(0).expand(8, 8).T, ramp.outer(ramp)])[
        :, None
    ]
    update, truth = FedSGD(model).update(images, [0, 1, 3], Preprocessing(SHAPE))
    return model, images, update, truth


@pytest.fixture(scope="module")
def result(case):
    model, _, update, _ = case
    return audit(update, model=model, invert_features=True, budget=Budget(seconds=60))


def test_images_are_estimated_beside_their_proven_features(case, result, tmp_path):
    images = case[1]
    assert result.status is Status.RECOVERED
    assert result.layer == "3"
    assert result.records.shape == (3, 256)
    assert result.records_are_features
    errors = (result.approximate_records[:, None] - images.flatten(1)[None]).square().mean(2)
    assert bool((errors.min(1).values < 0.01).all())
    assert errors.argmin(1).unique().numel() == 3
    assert all(evidence.residual < 0.1 for evidence in result.approximate_evidence)
    assert "how far it is from the record is unknown" in result.cause
    result.save(tmp_path / "result.json")
    assert AuditResult.load(tmp_path / "result.json").records_are_features


def test_without_a_model_it_is_refused(case):
    _, _, update, _ = case
    with pytest.raises(InputError, match="model"):
        audit(update, invert_features=True)


def test_a_report_shows_the_images(case, result):
    view = view_records(result, truth=case[3], show_records=True, salt=None)
    assert view.kind == "images"
    assert len(view.approximate) == 3
    assert not view.certified
    assert json.loads(json.dumps(result.to_json()))["records_recovered"] == 3


def test_the_command_line_compares_the_images(case, tmp_path, monkeypatch):
    _, _, update, truth = case
    update.save(tmp_path / "update.safetensors")
    truth.save(tmp_path / "truth.safetensors")
    (tmp_path / "made_network.py").write_text(
        "from torch import nn\n"
        "model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Flatten(),\n"
        "                      nn.Linear(256, 90), nn.ReLU(), nn.Linear(90, 4))\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["audit", "update.safetensors", "--model", "made_network:model", "--invert-features"]
    told = CliRunner().invoke(program, [*words, "--truth", "truth.safetensors"])
    assert told.exit_code == 0, told.output
    text = " ".join(told.stdout.split())
    assert "Known approximately 3 records, with an unknown error" in text
    assert "the estimated inputs, as the records are features" in text
    assert "Mean PSNR" in text
