import json
import sys

import numpy as np
import pytest
import torch
from skimage import metrics as reference

from gradaudit.data import patches
from gradaudit.errors import InputError, MissingExtraError
from gradaudit.metrics import MAX_PSNR, compare
from gradaudit.preprocessing import Column, Preprocessing
from gradaudit.truth import Truth


@pytest.fixture
def truth():
    batch = patches(16).batch(4, seed=1)
    return Truth(batch.inputs, batch.labels, batch.preprocessing)


def test_exact_records_in_any_order(truth):
    order = [2, 0, 3, 1]
    found = compare(
        truth.inputs[order].flatten(1), truth, labels=[int(truth.labels[i]) for i in order]
    )
    assert [pair.record for pair in found.pairs] == [1, 3, 0, 2]
    assert found.exact_records == 4
    assert found.exact_batch
    assert found.mean_mse == 0
    assert found.mean_psnr == MAX_PSNR
    assert found.mean_ssim == pytest.approx(1)
    assert found.label_accuracy == 1
    assert found.mean_lpips is None
    assert found.range_meaning == "pixels in [0, 1]"


def test_image_measures_are_of_pixels(truth):
    noise = 0.1 * torch.randn(truth.inputs.shape, generator=torch.Generator().manual_seed(2))
    found = compare(truth.inputs + noise, truth)
    ours = truth.preprocessing.to_images((truth.inputs + noise).numpy())
    theirs = truth.preprocessing.to_images(truth.inputs.numpy())
    for pair, a, b, n in zip(found.pairs, ours, theirs, noise.numpy(), strict=True):
        assert pair.psnr == pytest.approx(reference.peak_signal_noise_ratio(b, a, data_range=1))
        expected = reference.structural_similarity(b, a, data_range=1, channel_axis=-1)
        assert pair.ssim == pytest.approx(expected)
        assert pair.mse == pytest.approx(float((n**2).mean()), rel=1e-5)
        assert pair.max_abs_error == pytest.approx(float(abs(n).max()), rel=1e-5)
    assert found.exact_records == 0
    assert not found.exact_batch
    assert compare(truth.inputs + noise, truth, tolerance=1.0).exact_batch


def test_different_counts_leave_records_unmatched(truth):
    fewer = compare(truth.inputs[[3, 1]], truth, labels=[None, int(truth.labels[1])])
    assert fewer.unmatched_truth == (0, 2)
    assert fewer.exact_records == 2
    assert not fewer.exact_batch
    assert fewer.label_accuracy == 0.5
    more = compare(torch.cat([truth.inputs, truth.inputs[:1] + 5]), truth)
    assert more.unmatched_records == (4,)
    assert more.exact_records == 4
    assert not more.exact_batch
    none = compare(truth.inputs[:0], truth)
    assert none.unmatched_truth == (0, 1, 2, 3)
    assert none.mean_psnr is None
    assert none.table() == []
    assert not none.exact_batch


def test_a_record_that_is_there_twice_need_be_found_once():
    inputs = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    found = compare(inputs[:2], Truth(inputs, torch.zeros(3)))
    assert found.exact_batch
    assert len(found.unmatched_truth) == 1


def test_plain_vectors_have_no_image_measures_and_say_so():
    inputs = torch.tensor([[0.0, 4.0], [2.0, 1.0]])
    for preprocessing in (None, Preprocessing(columns=(Column("a"), Column("b")))):
        found = compare(
            inputs + 0.4, Truth(inputs, torch.zeros(2), preprocessing), perceptual="alex"
        )
        assert found.mean_ssim is None
        assert found.mean_lpips is None
        assert found.data_range == 4
        assert found.mean_psnr == pytest.approx(20, abs=1e-5)
        assert "no SSIM" in found.notes[0]
        assert "true batch spans" in found.range_meaning
    flat = compare(torch.ones(1, 2), Truth(torch.zeros(1, 2), torch.zeros(1)))
    assert flat.data_range == 1
    assert "all true values are equal" in flat.range_meaning


def test_missing_image_measures_have_a_reason(truth, monkeypatch):
    tiny = Truth(torch.rand(2, 12), torch.zeros(2), Preprocessing(image_shape=(3, 2, 2)))
    found = compare(tiny.inputs, tiny)
    assert found.mean_ssim is None
    assert "window" in found.notes[0]
    assert compare(truth.inputs, truth, structural=False).mean_ssim is None
    monkeypatch.setitem(sys.modules, "skimage.metrics", None)
    found = compare(truth.inputs, truth)
    assert found.mean_ssim is None
    assert "gradaudit[metrics]" in found.notes[0]
    monkeypatch.setitem(sys.modules, "torchmetrics.functional.image", None)
    with pytest.raises(MissingExtraError):
        compare(truth.inputs, truth, perceptual="alex")


def test_up_to_scale(truth):
    factors = torch.tensor([3.0, 0.01, 7.0, 1e5])
    records = truth.inputs.flatten(1) * factors[:, None]
    assert compare(records, truth).exact_records == 0
    found = compare(records, truth, up_to_scale=True)
    assert found.exact_batch
    np.testing.assert_allclose([pair.scale for pair in found.pairs], 1 / factors, rtol=1e-6)
    assert found.table()[0]["scale"] == pytest.approx(1 / 3)
    assert compare(-records, truth, up_to_scale=True).exact_records == 0


def test_table_and_json(truth):
    found = compare(truth.inputs + 1e100, truth, labels=[0, 1, 2, 3])
    rows = found.table()
    assert [row["truth"] for row in rows] == [0, 1, 2, 3]
    assert "lpips" not in rows[0]
    assert "scale" not in rows[0]
    value = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert value["pairs"][0]["psnr"] < -1000
    assert value["mean_psnr"] == pytest.approx(found.mean_psnr)
    assert value["exact_batch"] is False


@pytest.mark.parametrize(
    ("records", "arguments"),
    [
        (torch.zeros(4, 5), {}),
        (torch.zeros(768), {}),
        (np.zeros((4, 768)), {}),
        (torch.full((4, 768), float("nan")), {}),
        (torch.full((4, 768), 1e200, dtype=torch.float64), {}),
        (torch.zeros(4, 768), {"tolerance": -1}),
        (torch.zeros(4, 768), {"tolerance": float("nan")}),
        (torch.zeros(4, 768), {"labels": [1]}),
    ],
)
@pytest.mark.wrong_types
def test_bad_arguments(truth, records, arguments):
    with pytest.raises(InputError):
        compare(records, truth, **arguments)


def test_empty_truth():
    with pytest.raises(InputError, match="no record"):
        compare(torch.zeros(1, 2), Truth(torch.zeros(0, 2), torch.zeros(0)))
