from __future__ import annotations

import itertools

import torch

from gradaudit.budget import Budget, Control
from gradaudit.noisy.detection import _zeros_and_ones, detect_gates
from gradaudit.noisy.gates import Gates
from tests.noisy.following import known
from tests.noisy.test_gates import gates_of


def by_enumeration(design: torch.Tensor, observed: torch.Tensor, odds: torch.Tensor):
    """The exact posterior, over all vectors of zeros and ones."""
    size = design.shape[1]
    every = torch.tensor(list(itertools.product([0.0, 1.0], repeat=size)), dtype=torch.float64)
    logs = every @ odds - (observed - every @ design.T).square().sum(1) / 2
    return torch.softmax(logs, 0) @ every


def test_the_posterior_is_that_of_all_combinations():
    generator = torch.Generator().manual_seed(0)
    worst = 0.0
    for trial in range(20):
        design = 2 * torch.randn(12, 8, generator=generator, dtype=torch.float64)
        truth = (torch.rand(8, generator=generator) > 0.5).double()
        observed = design @ truth + torch.randn(12, generator=generator, dtype=torch.float64)
        odds = torch.randn(8, generator=generator, dtype=torch.float64)
        exact = by_enumeration(design, observed, odds)
        found = _zeros_and_ones(design, observed, odds)
        worst = max(worst, float((found - exact).abs().max()))
        clear = (exact - 0.5).abs() > 0.45
        assert bool(((found > 0.5) == (exact > 0.5))[clear].all()), trial
    # Expectation propagation is an approximation.
    assert worst < 0.25


def test_nothing_observed_leaves_the_prior():
    odds = torch.tensor([-2.0, 0.0, 3.0], dtype=torch.float64)
    nothing = torch.zeros(5, 3, dtype=torch.float64)
    found = _zeros_and_ones(nothing, torch.zeros(5, dtype=torch.float64), odds)
    torch.testing.assert_close(found, torch.sigmoid(odds), atol=1e-6, rtol=0)


def forgetful(gates: Gates, record: int, layer: int) -> Gates:
    """The same without what the layers say of one record's neurons that are near their boundary."""
    odds = [each.clone() for each in gates.odds]
    open_ones = gates.sides[layer][record].abs() < 3
    odds[layer][record, open_ones] = 0.0
    return Gates(gates.deltas, tuple(odds), gates.sides, gates.first)


def test_the_first_layer_tells_open_neurons_of_the_second():
    case = known(0.01)
    generator = torch.Generator().manual_seed(5)
    off = case.records + 0.03 * torch.randn(6, 80, generator=generator, dtype=torch.float64)
    gates = forgetful(gates_of(case, off, 0.03), 2, 1)
    network, control = case.network, Control(Budget())
    # From what is open, the delta of the first layer is far off; together with it, near.
    above = gates.deltas[2][2] @ network.layers[2].weight
    second = torch.sigmoid(gates.odds[1][2]) * above
    open_first = torch.sigmoid(gates.odds[0][2]) * (second @ network.layers[1].weight)
    truth = case.activation_gradients[2]
    found = detect_gates(network, gates, case.weights, [2], control)
    assert float((open_first - truth).norm()) > 0.05 * float(truth.norm())
    assert float((found[2] - truth).norm()) < 0.3 * float((open_first - truth).norm())
    # The others were not asked for.
    assert torch.equal(found[:2], gates.deltas[0][:2])


def test_it_stops_when_the_time_is_up():
    case = known(0.01)
    gates = forgetful(gates_of(case, case.records, 0.03), 2, 1)
    control = Control(Budget())
    control.interrupt()
    found = detect_gates(case.network, gates, case.weights, [2], control)
    assert torch.equal(found, gates.deltas[0])
