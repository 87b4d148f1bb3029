from __future__ import annotations

import torch

from gradaudit.noisy.gates import read_gates, read_layer, side_errors
from tests.noisy.following import Known, known


def gates_of(case: Known, records: torch.Tensor, error: float):
    passed = case.network.run(records)
    errors = torch.full((len(records),), error, dtype=torch.float64)
    sides = side_errors(case.network, passed, errors, torch.Generator().manual_seed(0))
    slopes = case.network.slopes(passed.outputs, case.labels)
    return read_gates(
        case.network, passed, slopes, weights=case.weights, errors=sides, level=case.level
    )


def test_a_layer_is_read_by_least_squares():
    # Oracle: torch's solver, with the bias as one more input.
    case = known(0.05)
    layer = case.network.layers[0]
    reading = read_layer(layer, case.records, case.level)
    assert reading is not None
    design = torch.cat([case.records, torch.ones(6, 1, dtype=torch.float64)], dim=1)
    observed = torch.cat([layer.weight_gradient, layer.bias_gradient[:, None]], dim=1)
    expected = torch.linalg.lstsq(design.T, observed.T).solution
    torch.testing.assert_close(reading.entries, expected)
    covariance = torch.linalg.inv(design @ design.T)
    torch.testing.assert_close(reading.noise, case.level * covariance.diagonal().sqrt())


def test_equal_inputs_are_not_told_apart():
    case = known(0.05)
    twice = case.records.clone()
    twice[1] = twice[0]
    assert read_layer(case.network.layers[0], twice, case.level) is None


def test_what_flows_back_is_the_gradient():
    case = known(1e-6)
    gates = gates_of(case, case.records, 1e-7)
    for found, expected in zip(gates.deltas, case.deltas(), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)


def test_the_gradients_tell_neurons_that_records_get_wrong():
    # Records off by a tenth put some neurons on the wrong side; the layers' gradients know better.
    case = known(0.02)
    generator = torch.Generator().manual_seed(5)
    off = case.records + 0.1 * torch.randn(6, 80, generator=generator, dtype=torch.float64)
    gates, passed = gates_of(case, off, 0.1), case.network.run(off)
    right = case.network.run(case.records)
    for number in range(2):
        truth = right.sides[number] > 0
        by_record = int(((passed.sides[number] > 0) != truth).sum())
        by_gradient = int(((gates.odds[number] > 0) != truth).sum())
        assert by_record > 4
        assert by_gradient < by_record / 3


def test_errors_of_sides_grow_with_the_records():
    case = known(0.02)
    passed = case.network.run(case.records)
    errors = torch.linspace(0.01, 0.06, 6, dtype=torch.float64)
    sides = side_errors(case.network, passed, errors, torch.Generator().manual_seed(0))
    # Of the first layer it is known: the error times the norm of a neuron's weights.
    norms = case.network.layers[0].weight.square().sum(1).mean().sqrt()
    ratio = sides[0] / (errors * norms)
    # Of 600 draws the spread is within a fifth of its mean but for one in 10^10.
    assert bool(((ratio > 1.2) & (ratio < 1.8)).all())
