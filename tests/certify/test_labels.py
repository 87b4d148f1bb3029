from __future__ import annotations

import pytest
import torch

from certify.settings import case
from gradaudit.certify.labels import best_labels, count_copies, fit_classes


def weights(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("given", "copies", "factor"),
    [
        ((0.25, 0.25, 0.5), [1, 1, 2], 1.0),
        ((-0.1, -0.3), [1, 3], -0.4),
        ((0.4, 0.6), [2, 3], 1.0),
        ((1e-12, 2e-12), [1, 2], 3e-12),
        ((0.7,), [1], 0.7),
        ((1.0, 1.0005), [1, 1], 2.0005),
    ],
)
def test_copies(given, copies, factor):
    found, total = count_copies(weights(*given))
    assert found.tolist() == copies
    assert total == pytest.approx(factor)


@pytest.mark.parametrize("given", [(1.0, 0.0), (1.0, 2**0.5), (1.0, 1.0123456)])
def test_no_whole_numbers(given):
    assert count_copies(weights(*given), tolerance=1e-6) is None


def test_a_tighter_tolerance():
    assert count_copies(weights(1.0, 1.0005), tolerance=1e-6, largest=4) is None
    assert count_copies(weights(0.2, 0.3), largest=1) is None


@pytest.mark.parametrize("classes", [2, 10])
def test_fits_find_the_class_and_its_weight(classes):
    sample = case(4, classes=classes, labels=[1, 0, 1, classes - 1])
    sample.network.prepare(sample.inputs, None)
    gradients = sample.judge(sample.inputs).gradients
    fits = fit_classes(sample.network, sample.inputs, gradients)
    found = best_labels(fits, 1.0)
    assert found.labels.tolist() == [1, 0, 1, classes - 1]
    assert torch.allclose(found.weights, torch.full_like(found.weights, 0.25))
    assert float(found.residuals.max()) < 1e-10
    # Two classes have one direction: the other fits as well, with a weight of the other sign.
    assert bool((found.rivals < 1e-10).all()) is (classes == 2)
    wrong = best_labels(fits, -1.0)
    if classes == 2:
        assert wrong.labels.tolist() == [0, 1, 0, 0]
    else:
        assert float(wrong.residuals.min()) > 0.1


def test_many_classes_run_in_parts(monkeypatch):
    sample = case(3, classes=7)
    sample.network.prepare(sample.inputs, None)
    gradients = sample.judge(sample.inputs).gradients
    whole = fit_classes(sample.network, sample.inputs, gradients)
    monkeypatch.setattr("gradaudit.certify.labels.LARGEST_RUN", 4)
    parts = fit_classes(sample.network, sample.inputs, gradients)
    assert torch.allclose(parts.residuals, whole.residuals, atol=1e-12)
    assert parts.weights.shape == (7, 3)
