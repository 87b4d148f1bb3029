from __future__ import annotations

import torch

from gradaudit.noisy.weights import Weights
from gradaudit.noisy.weights import estimate_weights as estimate

LEVEL = 1e-3


def weights_of(*given: object) -> Weights:
    found = estimate(*given)
    assert found is not None
    return found


def estimate_weights(*given: object) -> torch.Tensor:
    return weights_of(*given).values


def case(weights: torch.Tensor, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of six records, and the bias's gradient that they add up to."""
    generator = torch.Generator().manual_seed(seed)
    unit = torch.randn(6, 90, generator=generator, dtype=torch.float64)
    noise = LEVEL * torch.randn(90, generator=generator, dtype=torch.float64)
    return unit, weights @ unit + noise


def test_weights_that_are_alike_are_one_number():
    unit, bias = case(torch.full((6,), 0.125, dtype=torch.float64))
    found = estimate_weights(unit, bias, LEVEL)
    assert float(found.max() - found.min()) == 0
    # Its error is some LEVEL / sqrt(6 * 90).
    torch.testing.assert_close(found[0], torch.tensor(0.125).double(), atol=5e-4, rtol=0)


def test_weights_that_differ_are_their_own():
    true = torch.tensor([0.1, 0.3, -0.2, 0.5, 0.15, 0.2], dtype=torch.float64)
    unit, bias = case(true)
    expected = torch.linalg.lstsq(unit.T, bias[:, None]).solution[:, 0]
    torch.testing.assert_close(estimate_weights(unit, bias, LEVEL), expected)
    torch.testing.assert_close(expected, true, atol=1e-3, rtol=0)


def test_the_scale_comes_from_the_later_layers_too():
    # The last layer's bias gradient is far above the noise, and tells the scale as exactly.
    unit, bias = case(torch.full((6,), 0.125, dtype=torch.float64))
    last = 1e3 * torch.ones(6, 4, dtype=torch.float64)
    later = [(last, 0.125 * last.sum(0))]
    alone = estimate_weights(unit, bias, LEVEL)
    together = estimate_weights(unit, bias, LEVEL, later)
    assert float((together - 0.125).abs().max()) < 1e-8
    assert float((alone - 0.125).abs().max()) > 1e-6


def test_a_weight_that_differs_a_little_is_doubted():
    # By five standard errors for one of six: they may still pass for alike, which then says so.
    true = torch.full((6,), 0.125, dtype=torch.float64)
    unit, bias = case(true)
    spread = LEVEL * torch.linalg.inv(unit @ unit.T).diagonal().sqrt()
    true[2] += 5 * spread[2]
    unit, bias = case(true)
    found = weights_of(unit, bias, LEVEL)
    off = (found.values - true).abs() / true
    # The error of a difference: what is claimed is less by two standard errors at most.
    assert float(found.relative_error[2]) > 0.4 * float(off[2])


def test_weights_of_their_own_have_the_error_of_least_squares():
    true = torch.tensor([0.1, 0.3, -0.2, 0.5, 0.15, 0.2], dtype=torch.float64)
    off = []
    for seed in range(40):
        unit, bias = case(true, seed)
        found = weights_of(unit, bias, LEVEL)
        assert not found.alike
        off.append((found.values - true) / true.abs() / found.relative_error)
    # 240 errors of unit size: their root mean square is within 5 standard errors of 1.
    assert 0.77 < float(torch.cat(off).square().mean().sqrt()) < 1.23


def test_gradients_that_are_one_have_no_weights():
    unit, bias = case(torch.full((6,), 0.125, dtype=torch.float64))
    unit[1] = unit[0]
    assert estimate(unit, bias, LEVEL) is None
    assert estimate(torch.full_like(unit, torch.nan), bias, LEVEL) is None
