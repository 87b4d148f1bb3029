"""Records that fit a noisy gradient but for its noise, and those that a fit moves."""

from __future__ import annotations

import math

import pytest
import torch
from noisy.material import noisy_case

from gradaudit.certify.noisy import _solve, certify_under_noise
from gradaudit.certify.refit import LARGEST_MOVE, SCALES_BY_CHANCE, fit_again


def fitted(case, records):
    level = float(case.problem.sparse_noise.mean())
    gradients = _solve(case.problem, records, level)[0]
    return fit_again(case.problem, records, gradients, level)


@pytest.mark.parametrize("seed", range(5))
def test_true_records_are_moved_by_their_standard_error(seed):
    """Or a little less: the activation gradients were fitted to the same noise."""
    case = noisy_case(0.01, batch_size=6, seed=seed)
    refit = fitted(case, case.inputs)
    ratio = refit.moves / refit.noise
    assert 0.7 < float(ratio.min()) <= float(ratio.max()) < 1.2
    # Fails for right records once in a thousand draws of the noise; the seeds are fixed.
    assert refit.scales > 1e-3


def test_what_is_claimed_is_no_less_than_the_noise_makes_of_it():
    case = noisy_case(0.01, batch_size=6, seed=1)
    refit = fitted(case, case.inputs)
    verdict = certify_under_noise(
        case.problem,
        case.inputs,
        entry_error=refit.noise / 10,
        side_error=torch.zeros_like(refit.noise),
    )
    claims = [record.estimated_error for record in verdict.evidence]
    assert all(c >= 0.999 * n for c, n in zip(claims, refit.noise.tolist(), strict=True))


@pytest.mark.parametrize("away", [4.0, 8.0, 16.0])
def test_a_batch_that_is_scaled_is_not_certified(away):
    """By so many standard errors of an entry, of which little shows in the whole gradient."""
    case = noisy_case(0.01, batch_size=6, seed=2)
    refit = fitted(case, case.inputs)
    size = case.inputs.square().mean(1).sqrt()
    scaled = case.inputs * (1 + away * float((refit.noise / size).max()))
    moved = fitted(case, scaled)
    assert moved.scales < SCALES_BY_CHANCE
    verdict = certify_under_noise(
        case.problem,
        scaled,
        entry_error=refit.noise,
        side_error=torch.zeros_like(refit.noise),
    )
    assert verdict.recovered == 0


def test_a_record_with_noise_of_its_own_is_named():
    case = noisy_case(0.01, batch_size=6, seed=3)
    refit = fitted(case, case.inputs)
    step = torch.randn(case.inputs[0].shape, generator=torch.Generator().manual_seed(1)).double()
    records = case.inputs.clone()
    records[2] += 2 * LARGEST_MOVE * float(refit.noise[2]) * step
    moved = fitted(case, records)
    names = [bool(moved.objection(j, float(moved.noise[j]))) for j in range(len(records))]
    assert names == [False, False, True, False, False, False]


def test_without_a_bias_gradient_scales_are_not_judged():
    case = noisy_case(0.01, batch_size=6, seed=4)
    case.problem.layer.__dict__["bias_gradient"] = None
    assert math.isclose(fitted(case, case.inputs * 1.5).scales, 1.0)
