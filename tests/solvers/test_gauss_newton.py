from __future__ import annotations

import torch
from rgap.networks import generator

from gradaudit.solvers import gauss_newton as module
from gradaudit.solvers.gauss_newton import gauss_newton


def curved(inputs: torch.Tensor) -> torch.Tensor:
    """Twice as many values as inputs."""
    flat = inputs.flatten()
    return torch.cat([flat.exp(), flat.roll(1) * flat + flat])


def near() -> tuple[torch.Tensor, torch.Tensor]:
    true = torch.rand(2, 5, generator=generator(1), dtype=torch.float64)
    return true, true + 0.05 * torch.rand(2, 5, generator=generator(2), dtype=torch.float64)


def test_what_is_near_becomes_exact_with_and_without_the_derivatives_matrix(monkeypatch):
    true, start = near()
    formed = gauss_newton(curved, curved(true), start, steps=9, iterations=50)
    monkeypatch.setattr(module.Derivative, "small", lambda _: False)
    multiplied = gauss_newton(curved, curved(true), start, steps=9, iterations=50)
    for found in (formed, multiplied):
        assert found.steps <= 5
        assert torch.allclose(found.inputs, true, atol=1e-12, rtol=0)
        assert found.mismatch < 1e-12


def test_it_ends_at_what_cannot_be_explained():
    true, start = near()
    noise = 1e-4 * torch.randn(20, generator=generator(3), dtype=torch.float64)
    found = gauss_newton(curved, curved(true) + noise, start, steps=9, iterations=50)
    # Ten of twenty degrees of freedom stay: the root mean square is about 1e-4 / sqrt(2), within
    # a factor of two except in one draw of ten thousand.
    assert 3.5e-5 < found.mismatch < 1.4e-4
    assert found.steps < 9


def test_a_step_that_leads_too_far_is_shortened():
    # Newton's own step from 3 leads to -9.5, further away than the start.
    found = gauss_newton(
        lambda x: x.flatten().atan(),
        torch.zeros(1, dtype=torch.float64),
        torch.full((1, 1), 3.0, dtype=torch.float64),
        steps=20,
        iterations=5,
    )
    assert abs(float(found.inputs)) < 1e-9


def test_it_does_nothing_where_it_need_not_or_may_not():
    true, start = near()
    asked = gauss_newton(curved, curved(true), start, steps=9, iterations=5, stop=lambda: True)
    good = gauss_newton(curved, curved(true), start, steps=9, iterations=5, enough=1.0)
    for found in (asked, good):
        assert found.steps == 0
        assert torch.equal(found.inputs, start)
