from __future__ import annotations

import copy

import pytest
import torch

from certify.settings import case
from gradaudit.certify import Network, certify
from gradaudit.certify.labels import best_labels, count_copies, fit_classes
from gradaudit.clients import FedSGD
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Setting, build_problem


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
    fits = fit(sample, gradients)
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


def fit(sample, gradients, sign=1.0):
    tolerances = torch.full((len(sample.inputs),), 1e-9, dtype=torch.float64)
    forward = sample.network.forward(sample.inputs)
    return fit_classes(forward, gradients, sign=sign, tolerances=tolerances)


def test_a_sketch_excludes_classes_and_changes_no_decision(monkeypatch):
    sample = case(6, classes=7)
    sample.network.prepare(sample.inputs, None)
    gradients = sample.judge(sample.inputs).gradients
    sketched = fit(sample, gradients)
    monkeypatch.setattr("gradaudit.certify.labels.SKETCH_PRODUCTS", 7)
    whole = fit(sample, gradients)
    assert bool((whole.weights != 0).all())
    assert int((sketched.weights != 0).sum()) < whole.weights.numel()
    # What is excluded is so rightly, and what is not is the same.
    assert bool((sketched.residuals <= whole.residuals + 1e-12).all())
    assert best_labels(sketched, 1.0).labels.tolist() == best_labels(whole, 1.0).labels.tolist()
    excluded = sketched.weights == 0
    assert bool((whole.residuals[excluded] > 1e-9).all())
    assert torch.equal(sketched.weights[~excluded], whole.weights[~excluded])


@pytest.mark.parametrize("spoil", ["sign", "records"])
def test_records_that_no_class_explains_are_compared_with_all(spoil):
    sample = case(4, classes=7)
    sample.network.prepare(sample.inputs, None)
    gradients = sample.judge(sample.inputs).gradients
    if spoil == "records":
        gradients = gradients.roll(1, dims=1)
    fits = fit(sample, gradients, sign=-1.0 if spoil == "sign" else 1.0)
    assert bool((fits.weights != 0).all())


def test_what_cannot_be_differentiated_twice_is_compared_with_all(monkeypatch):
    def refuse(*_):
        raise RuntimeError("the derivative of this backward pass is not implemented")

    sample = case(4, classes=7)
    sample.network.prepare(sample.inputs, None)
    gradients = sample.judge(sample.inputs).gradients
    expected = best_labels(fit(sample, gradients), 1.0)
    monkeypatch.setattr("gradaudit.certify.forward.Forward.output_changes", refuse)
    fits = fit(sample, gradients)
    assert bool((fits.weights != 0).all())
    assert best_labels(fits, 1.0).labels.tolist() == expected.labels.tolist()


def test_many_classes_run_in_parts(monkeypatch):
    sample = case(3, classes=7)
    sample.network.prepare(sample.inputs, None)
    gradients = sample.judge(sample.inputs).gradients
    whole = fit(sample, gradients)
    monkeypatch.setattr("gradaudit.certify.labels.LARGEST_RUN", 4)
    parts = fit(sample, gradients)
    assert torch.allclose(parts.residuals, whole.residuals, atol=1e-12)
    assert parts.weights.shape == (7, 3)


def test_a_class_that_no_active_neuron_reaches_is_not_named():
    """Two such classes have one gradient at the layer; once, the first of them was named."""
    sample = case(2, labels=[0, 3], hidden=(), seed=1)
    with torch.no_grad():
        sample.network._tensors["fc2.weight"][3:5] = 0
    update, _ = FedSGD(mlp_with(sample), "mse").update(sample.inputs, torch.tensor([0, 3]))
    layer = next(iter(update.linear_layers()))
    factors = factor_gradient(layer.weight_gradient, generator=torch.Generator().manual_seed(0))
    problem = build_problem(layer, factors, Setting.SPARSE_GRADIENT)
    network = Network(mlp_with(sample), update, layer="fc1", loss="mse")
    verdict = certify(problem, sample.inputs, scale_identified=True, network=network, total=1.0)
    assert verdict.recovered == 2
    assert [record.label for record in verdict.evidence] == [0, None]


def mlp_with(sample):
    """The case's network with the weights that its judge has now."""
    model = copy.deepcopy(sample.model)
    model.load_state_dict(sample.network._tensors, strict=False)
    return model
