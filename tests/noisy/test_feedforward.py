from __future__ import annotations

from dataclasses import replace

import torch

from gradaudit.models.losses import get_loss
from gradaudit.noisy import FeedForward
from tests.noisy.following import known

CPU = torch.device("cpu")


def test_it_computes_what_the_layers_compute():
    case = known(0.0)
    passed = case.network.run(case.records)
    current = case.records
    for layer, inputs, side in zip(case.network.layers, passed.inputs, passed.sides, strict=True):
        assert torch.equal(inputs, current)
        torch.testing.assert_close(
            side, torch.nn.functional.linear(inputs, layer.weight, layer.bias)
        )
        current = torch.relu(side)


def test_slopes_are_the_losses_own():
    case = known(0.0)
    outputs = case.network.run(case.records).outputs
    expected = torch.softmax(outputs, 1) - torch.nn.functional.one_hot(case.labels, 4)
    torch.testing.assert_close(case.network.slopes(outputs, case.labels), expected)


def test_layers_that_do_not_fit_are_no_row():
    layers = known(0.0).network.layers
    loss = get_loss("cross_entropy")
    assert FeedForward.of(layers[::-1], loss, device=CPU) is None
    assert FeedForward.of((layers[0], layers[2]), loss, device=CPU) is None


def test_single_precision_is_widened_and_missing_biases_stay_missing():
    layers = [
        replace(
            layer,
            weight=layer.weight.float(),
            weight_gradient=layer.weight_gradient.float(),
            bias=None,
            bias_gradient=None,
        )
        for layer in known(0.0).network.layers
    ]
    row = FeedForward.of(layers, get_loss("cross_entropy"), device=CPU)
    assert row is not None
    assert all(layer.weight.dtype == torch.float64 for layer in row.layers)
    assert all(layer.bias is None for layer in row.layers)
