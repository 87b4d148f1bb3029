"""The fit of all directions together, where half-spaces must be believed as they deserve."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from gradaudit.noisy.joint import _half_space, fit_jointly
from tests.noisy.material import noisy_case
from tests.noisy.test_recover import true_directions

# Of the synthetic record below: entries of active neurons over those of inactive ones.
NARROW, WIDE, NEURONS = 1.0, 400.0, 2_000


def entries_and_margins(error: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A record's squared entries, and its pre-activations over a predicted error of 1."""
    generator = torch.Generator().manual_seed(1)
    true, drawn, wrong = torch.randn(3, NEURONS, generator=generator, dtype=torch.float64)
    sides = 30 * true
    deviation = torch.where(sides > 0, WIDE, NARROW) ** 0.5
    return (deviation * drawn).square()[None], (sides + error * wrong)[None]


@pytest.mark.parametrize(("error", "expected"), [(1, 1), (2, 2), (4, 4), (8, 8)])
def test_the_temperature_is_the_error_of_the_half_space(error, expected):
    squares, margins = entries_and_margins(error)
    one = torch.ones(1, 1, dtype=torch.float64)
    prior, temperature = _half_space(margins, squares, NARROW * one, WIDE * one)
    # One in twelve active entries is within two standard deviations of the noise: that is no
    # evidence against the half-space.
    small = (squares < 4 * NARROW) & (margins > 3 * error)
    assert int(small.sum()) > 30
    assert expected / 2 <= float(temperature) <= expected * 2
    torch.testing.assert_close(prior, torch.special.ndtr(margins / temperature), atol=1e-3, rtol=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("relative", "alike"), [(0.1, 0.4), (0.1, 0.3), (0.2, 0.4)])
def test_records_that_are_alike_do_not_wander_off_from_the_truth(relative, alike, seed):
    case = noisy_case(relative, batch_size=8, seed=seed, alike=alike)
    if case.problem.batch_size < 8:
        pytest.skip("noise hides one of the two: their difference is no direction of its own")
    truth = true_directions(case)
    fit = fit_jointly(case.problem, truth)
    assert fit is not None
    agreement = (normalize(fit.directions, dim=1) * truth).sum(1).abs()
    assert float(agreement.min()) > 0.97
    which = case.errors_of(fit.mixtures @ case.problem.factors.right.T)[1]
    assert sorted(which.tolist()) == list(range(8))


@pytest.mark.parametrize("seed", range(4))
def test_directions_that_are_somewhat_off_are_led_to_the_truth(seed):
    case = noisy_case(0.1, seed=seed)
    truth = true_directions(case)
    generator = torch.Generator().manual_seed(seed)
    off = 0.05 * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    start = normalize(truth + off, dim=1)
    fit = fit_jointly(case.problem, start)
    assert fit is not None
    agreement = (normalize(fit.directions, dim=1) * truth).sum(1).abs()
    assert float((start * truth).sum(1).abs().min()) < 0.997
    assert float(agreement.min()) > 0.9995


def test_directions_that_are_one_make_no_batch():
    case = noisy_case(0.03)
    truth = true_directions(case)
    assert fit_jointly(case.problem, torch.cat([truth[:1], truth[:-1]])) is None
