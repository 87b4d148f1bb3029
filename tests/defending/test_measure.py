from __future__ import annotations

import pytest
import torch

from gradaudit.defending.measure import compare_with_truth
from gradaudit.evidence import ApproximateEvidence, RecordEvidence, Status
from gradaudit.result import AuditResult
from gradaudit.truth import Truth

TRUTH = Truth(torch.tensor([[0.0, 0.0], [3.0, 1.0], [1.0, -1.0]]).double(), torch.arange(3))


def result(records, approximate, **more) -> AuditResult:
    return AuditResult(
        Status.PARTIAL,
        "",
        "",
        records=records,
        evidence=tuple(
            RecordEvidence(index == 0, estimated_error=0.1) for index in range(len(records))
        ),
        approximate_records=approximate,
        approximate_evidence=(ApproximateEvidence(0.7, None),) * len(approximate),
        **more,
    )


def test_what_is_certified_and_what_is_estimated_are_matched_together():
    records = torch.tensor([[3.1, 1.1], [torch.inf, 0.0]]).double()
    found = compare_with_truth(result(records, torch.tensor([[1.0, 0.0]]).double()), TRUTH)
    first, second = sorted(found, key=lambda record: record.true_error)
    assert (first.certified, first.estimated_error) == (True, 0.1)
    assert first.true_error == pytest.approx(0.1)
    assert (second.certified, second.estimated_error) == (False, 0.7)
    assert second.true_error == pytest.approx(0.5**0.5)


def test_features_are_not_compared_with_records():
    features = torch.ones(1, 5).double()
    assert compare_with_truth(result(features, torch.zeros(0, 2).double()), TRUTH) == ()


def test_records_known_up_to_a_factor_are_scaled():
    unit = torch.tensor([[3.0, 1.0]]).double() / 10**0.5
    nothing = torch.zeros(0, 2).double()
    (found,) = compare_with_truth(result(unit, nothing, scale_identified=False), TRUTH)
    assert found.true_error == pytest.approx(0.0, abs=1e-12)
