"""The audit with an attack that matches gradients: statuses, evidence and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.clients import FedSGD
from gradaudit.errors import InputError
from gradaudit.evidence import Status
from gradaudit.gradient_matching import DLG, IDLG, INVERTING_GRADIENTS, Knowledge
from gradaudit.preprocessing import Preprocessing
from gradaudit.result import AuditResult
from gradient_matching.material import SHAPE, convolutional, sample

LIMIT = Budget(seconds=60)
BRIEF = replace(INVERTING_GRADIENTS, iterations=20)


@pytest.mark.parametrize(("attack", "dtype"), [("dlg", "float64"), ("idlg", "float32")])
def test_one_record_is_recovered_and_certified(attack, dtype):
    case = sample(convolutional(), (3,), gradient_dtype=dtype)
    result = audit(case.update, model=case.model, attack=attack, budget=LIMIT)
    assert result.status is Status.RECOVERED
    assert result.certificate.kind == "full_gradient"
    assert result.labels == (3,)
    assert result.batch_size == 1
    assert result.layer is None
    assert result.preprocessing == Preprocessing(SHAPE)
    assert "from the whole network" in result.summary()
    error = float((result.records - case.inputs.flatten(1)).square().mean().sqrt())
    expected = result.evidence[0].estimated_error
    # A normal error of 36 entries exceeds thrice its expected root mean square with a probability
    # below 1e-15; the prediction is to first order.
    assert error < 3 * expected
    assert expected < (1e-10 if dtype == "float64" else 1e-3)


def test_a_difference_of_weights_needs_the_rate_and_then_is_as_good():
    case = sample(convolutional(), (3,), observe="delta", learning_rate=0.5)
    result = audit(case.update, model=case.model, attack="idlg", budget=LIMIT)
    assert result.status is Status.RECOVERED
    assert (result.records - case.inputs.flatten(1)).abs().max() < 1e-6


def test_what_is_not_proven_is_an_estimate_with_its_residual(tmp_path):
    case = sample(convolutional(nn.ReLU), (3, 0))
    result = audit(
        case.update,
        model=case.model,
        attack="inverting-gradients",
        method=BRIEF,
        knowledge=Knowledge(labels=(0, 3)),
    )
    assert result.status is Status.NOT_RECOVERED
    assert "did not recover any record" in result.summary()
    assert result.records is None
    assert result.certificate.kind == "none"
    assert result.approximate_records.shape == (2, 36)
    for evidence in result.approximate_evidence:
        assert evidence.estimated_error is None
        assert evidence.residual > 1e-3
    result.save(tmp_path / "result.json")
    assert AuditResult.load(tmp_path / "result.json").to_json()["search"]["attack"] == BRIEF.name


def test_the_batch_size_is_read_off_a_layer_and_labels_are_inferred():
    case = sample(convolutional(), (3, 0))
    result = audit(case.update, model=case.model, attack="inverting-gradients", method=BRIEF)
    assert result.batch_size == 2
    assert any("rank of layer '3'" in line for line in result.assumptions)
    assert any("estimated from the last layer" in line for line in result.assumptions)


def test_a_label_that_is_wrong_is_never_certified():
    case = sample(convolutional(), (3,))
    result = audit(
        case.update,
        model=case.model,
        attack="idlg",
        method=replace(IDLG, iterations=60, restarts=1),
        knowledge=Knowledge(labels=(1,)),
    )
    assert result.status is Status.NOT_RECOVERED
    assert not result.records_recovered


def test_refusals_come_before_any_work():
    case = sample(convolutional(), (3, 0, 1, 2, 1, 0))
    alone = audit(case.update, attack="dlg")
    assert alone.status is Status.NOT_APPLICABLE
    assert "no network was given" in alone.cause
    several = audit(case.update, model=case.model, attack="idlg", knowledge=Knowledge(6))
    assert several.status is Status.NOT_APPLICABLE
    assert "takes a batch of 1" in several.cause
    unknown = audit(case.update, model=case.model, attack="dlg")
    assert unknown.status is Status.NOT_APPLICABLE
    assert "batch size" in unknown.remedy
    norm = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(36), nn.Linear(36, 4)).train()
    update, _ = FedSGD(norm).update(torch.rand(3, *SHAPE), [0, 1, 2], Preprocessing(SHAPE))
    mixed = audit(update, model=norm, attack="dlg")
    assert mixed.status is Status.NOT_APPLICABLE
    assert "BatchNorm" in mixed.cause


def test_what_only_matching_takes_is_refused_elsewhere():
    case = sample(convolutional(), (3,))
    with pytest.raises(InputError, match="knowledge"):
        audit(case.update, knowledge=Knowledge(1))
    with pytest.raises(InputError, match="method"):
        audit(case.update, model=case.model, attack="idlg", method=DLG)
    with pytest.raises(InputError, match="layer"):
        audit(case.update, model=case.model, attack="dlg", layer="3")


def test_networks_of_pieces_are_named():
    case = sample(convolutional(nn.ReLU), (3,))
    method = replace(DLG, iterations=20, restarts=1)
    result = audit(case.update, model=case.model, attack="dlg", method=method)
    assert any("linear in pieces" in line for line in result.assumptions)
