"""Noise that the caller gave, against what the gradient shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gradaudit.auditing import audit
from gradaudit.clients import FedSGD
from gradaudit.models import mlp
from gradaudit.outcome import UNSEEN_NOISE


def observed(noise: float = 0.0):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(6, 40, generator=generator).double()
    client = FedSGD(mlp(40, [120, 30], 3, dtype=torch.float64))
    update, _ = client.update(inputs, torch.arange(6) % 3)
    gradients = {
        name: change + noise * torch.randn(change.shape, generator=generator).double()
        for name, change in update.gradient.items()
    }
    return replace(update, gradient=gradients)


def objections(result):
    return [line for line in result.assumptions if line.startswith(UNSEEN_NOISE)]


@pytest.mark.parametrize("given", [1e-6, 1e300])
def test_noise_that_is_not_there_is_named_and_plays_no_part(given):
    result = audit(replace(observed(), noise=given))
    assert result.records_recovered == 6
    assert objections(result)


def test_noise_that_is_there_is_not_objected_to():
    noise = 1e-6
    result = audit(replace(observed(noise), noise=noise))
    assert result.status.leak_proven
    assert not objections(result)


def test_noise_far_above_what_is_there_hides_nothing():
    noise = 1e-6
    result = audit(replace(observed(noise), noise=1e3 * noise))
    assert result.records_recovered == 6
    assert objections(result)
