from __future__ import annotations

import torch

from gradaudit.budget import Budget, Control
from gradaudit.gradient_matching.refine import refine
from gradient_matching.material import convolutional, sample


def test_what_is_near_becomes_exact():
    case = sample(convolutional(), (2,))
    noise = torch.randn(case.inputs.shape, generator=torch.Generator().manual_seed(1)).double()
    start = case.inputs + 1e-2 * noise
    before = float(case.target.residuals(start[None], case.labels[None]))
    found = refine(case.target, start, case.labels, enough=1e-13, control=Control())
    assert found.residual < 1e-13 < 1e-4 < before
    assert (found.records - case.inputs).abs().max() < 1e-9
    assert found.steps <= 8


def test_a_wrong_label_cannot_be_refined_away():
    case = sample(convolutional(), (2,))
    before = float(case.target.residuals(case.inputs[None], torch.tensor([[1]])))
    found = refine(case.target, case.inputs, torch.tensor([1]), enough=1e-13, control=Control())
    assert 1e-3 < found.residual <= before


def test_it_stops_when_told():
    case = sample(convolutional(), (2,))
    control = Control(Budget(seconds=60))
    control.interrupt()
    found = refine(case.target, 2 * case.inputs, case.labels, enough=0.0, control=control)
    assert found.steps == 0
    assert found.records.equal(2 * case.inputs)
