from __future__ import annotations

import torch

from gradaudit.noisy.weights import estimate_weights

LEVEL = 1e-3


def case(weights: torch.Tensor, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of six records, and the bias's gradient that they add up to."""
    generator = torch.Generator().manual_seed(seed)
    unit = torch.randn(6, 90, generator=generator, dtype=torch.float64)
    noise = LEVEL * torch.randn(90, generator=generator, dtype=torch.float64)
    return unit, weights @ unit + noise


def test_weights_that_are_alike_are_one_number():
    unit, bias = case(torch.full((6,), 0.125, dtype=torch.float64))
    found = estimate_weights(unit, bias, LEVEL, None)
    assert float(found.max() - found.min()) == 0
    # Its error is some LEVEL / sqrt(6 * 90).
    torch.testing.assert_close(found[0], torch.tensor(0.125).double(), atol=5e-4, rtol=0)


def test_clipped_weights_follow_the_norms():
    norms = torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0, 8.0], dtype=torch.float64)
    true = 0.25 * (1.5 / norms).clamp(max=1.0)
    unit, bias = case(true)
    found = estimate_weights(unit, bias, LEVEL, norms)
    torch.testing.assert_close(found, true, atol=5e-4, rtol=0)
    ratio = found[2:] * norms[2:]
    torch.testing.assert_close(ratio, ratio[:1].expand(4))


def test_all_clipped_is_one_number_too():
    norms = torch.tensor([2.0, 3.0, 4.0, 5.0, 6.0, 7.0], dtype=torch.float64)
    unit, bias = case(0.3 / norms)
    found = estimate_weights(unit, bias, LEVEL, norms)
    torch.testing.assert_close(found, 0.3 / norms, atol=5e-4, rtol=0)


def test_weights_without_a_rule_are_their_own():
    true = torch.tensor([0.1, 0.3, -0.2, 0.5, 0.15, 0.2], dtype=torch.float64)
    unit, bias = case(true)
    norms = torch.ones(6, dtype=torch.float64)
    expected = torch.linalg.lstsq(unit.T, bias[:, None]).solution[:, 0]
    torch.testing.assert_close(estimate_weights(unit, bias, LEVEL, norms), expected)
    torch.testing.assert_close(expected, true, atol=1e-3, rtol=0)


def test_the_scale_comes_from_the_later_layers_too():
    # The last layer's bias gradient is far above the noise, and tells the scale as exactly.
    unit, bias = case(torch.full((6,), 0.125, dtype=torch.float64))
    last = 1e3 * torch.ones(6, 4, dtype=torch.float64)
    later = [(last, 0.125 * last.sum(0))]
    alone = estimate_weights(unit, bias, LEVEL, None)
    together = estimate_weights(unit, bias, LEVEL, None, later)
    assert float((together - 0.125).abs().max()) < 1e-8
    assert float((alone - 0.125).abs().max()) > 1e-6
