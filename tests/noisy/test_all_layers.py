from __future__ import annotations

from dataclasses import replace

import torch

from gradaudit.budget import Budget, Control
from gradaudit.noisy import use_all_layers
from gradaudit.noisy.all_layers import _Normal
from tests.noisy.following import Known, known
from tests.noisy.test_polish import polished

WIDE = {"features": 60, "widths": (240, 200, 200)}


def better(case: Known, start, control: Control | None = None):
    return use_all_layers(
        case.network,
        start,
        case.labels,
        level=case.level,
        generator=torch.Generator().manual_seed(7),
        control=control or Control(Budget()),
    )


def test_wide_layers_lead_below_the_first_ones_floor():
    ratios = []
    for seed in range(3):
        case = known(0.02, seed=seed, **WIDE)
        start = polished(case, 0.05)
        found = better(case, start)
        errors = case.errors(found.records)
        ratios.append(errors / case.floor())
        # It is claimed as if every neuron were right; a certificate claims no less than the floor.
        claimed = found.entry_error.maximum(case.floor())
        assert bool((errors / claimed < 1.4).all())
        assert bool((found.entry_error < start.entry_error).all())
    # 18 records of 60 entries: the mean is far from 1, whose standard error is 0.02.
    assert float(torch.cat(ratios).mean()) < 0.85


def test_the_equations_are_those_of_least_squares():
    # Oracle: all layers' gradients as one dense linear problem in the records.
    case = known(0.02, batch_size=2, features=7, widths=(9, 8))
    passed = case.network.run(case.records)
    activity = [(side > 0).double() for side in passed.sides[:-1]]
    deltas = [case.weights[:, None] * delta for delta in case.deltas()]
    normal = _Normal(case.network, activity, deltas)

    def gradients(records: torch.Tensor) -> torch.Tensor:
        inputs = normal.inputs(records, biases=False)
        return torch.cat([(d.T @ h).flatten() for d, h in zip(deltas, inputs, strict=True)])

    unit = torch.eye(14, dtype=torch.float64).reshape(14, 2, 7)
    jacobian = torch.stack([gradients(each) for each in unit])
    expected = jacobian @ jacobian.T
    found = torch.stack([normal.apply(each).flatten() for each in unit])
    torch.testing.assert_close(found, expected)
    right = torch.randn(2, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    solved = normal.solve(right, Control(Budget()))
    assert solved is not None
    exact = torch.linalg.solve(expected, right.flatten()).reshape(2, 7)
    torch.testing.assert_close(solved, exact, rtol=0.02, atol=0.02 * float(exact.abs().max()))


def test_a_narrow_layer_is_not_worth_it():
    case = known(0.02, features=400, widths=(39, 60), batch_size=3)
    start = polished(case, 0.02)
    assert better(case, start) is start


def test_a_later_gradient_that_is_not_explained_changes_nothing():
    case = known(0.02, **WIDE)
    start = polished(case, 0.05)
    last = case.network.layers[-2]
    broken = replace(last, weight_gradient=last.weight_gradient.flip(0))
    layers = (*case.network.layers[:-2], broken, case.network.layers[-1])
    other = replace(case, network=replace(case.network, layers=layers))
    assert better(other, start) is start


def test_no_time_changes_nothing():
    case = known(0.02, **WIDE)
    start = polished(case, 0.05)
    control = Control(Budget())
    control.interrupt()
    assert better(case, start, control) is start
