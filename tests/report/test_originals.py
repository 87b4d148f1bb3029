from __future__ import annotations

import pytest
import torch

from gradaudit.errors import InputError
from gradaudit.report.originals import match_originals
from gradaudit.truth import Truth
from report.material import COLOUR, recovered, truth_of


def test_each_record_gets_its_own_original():
    result = recovered(6)
    truth = truth_of(result)
    originals = match_originals(result.records, truth, COLOUR)
    for index in range(6):
        place = originals.index(index)
        assert torch.allclose(truth.inputs[place].double(), result.records[index], atol=1e-6)
        errors = dict(originals.errors(index))
        assert errors["PSNR"].endswith("dB")
        assert "10⁻⁸" in errors["Largest error"] or "10⁻⁷" in errors["Largest error"]
    assert sorted(originals.index(index) for index in range(6)) == list(range(6))
    assert "pixels" in originals.note


def test_the_given_preprocessing_stands_in():
    result = recovered(2)
    truth = Truth(result.records, torch.zeros(2))
    assert "pixels" in match_originals(result.records, truth, COLOUR).note
    assert "pixels" not in match_originals(result.records, truth, None).note


def test_counts_may_differ_and_odd_records_have_no_original():
    result = recovered(3)
    records = result.records.clone()
    records[1, 5] = float("nan")
    originals = match_originals(records, truth_of(result), COLOUR)
    assert originals.index(1) is None
    assert originals.errors(1)[0][0] == "Original"
    assert originals.index(0) is not None
    assert originals.index(2) is not None
    assert "1 original without a counterpart" in originals.note
    nothing = match_originals(records[1:2], truth_of(result), COLOUR)
    assert nothing.pairs == {}


def test_unknown_scale_is_fitted():
    result = recovered(3)
    records = result.records / result.records.norm(dim=1, keepdim=True)
    originals = match_originals(records, truth_of(result), COLOUR, up_to_scale=True)
    assert all(error < 1e-6 for _, error, _ in originals.pairs.values())
    assert "best factor" in originals.note


def test_the_truth_of_another_batch_is_an_input_error():
    with pytest.raises(InputError, match="truth of this update"):
        match_originals(torch.zeros(2, 7, dtype=torch.float64), truth_of(recovered(2)), None)
