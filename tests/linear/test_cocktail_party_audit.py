"""The Cocktail Party attack as an audit: estimates, and never more."""

from __future__ import annotations

import pytest
import torch

from gradaudit.auditing import audit
from gradaudit.budget import Budget
from gradaudit.clients import FedSGD
from gradaudit.evidence import Status
from gradaudit.models import mlp
from gradaudit.preprocessing import Preprocessing
from linear.test_cocktail_party import SHAPE, centred, cosines, textures


@pytest.fixture
def sent():
    records = textures(6)
    client = FedSGD(mlp(576, [80, 30], 4, dtype=torch.float64))
    update, _ = client.update(records.reshape(-1, *SHAPE), [0, 1, 2, 3, 0, 1], Preprocessing(SHAPE))
    return records, update


def test_estimates_are_close_and_nothing_is_called_recovered(sent):
    records, update = sent
    result = audit(update, attack="cocktail-party", budget=Budget(seconds=60))
    assert result.status is Status.NOT_RECOVERED
    assert result.records is None
    assert result.batch_size == 6
    best = cosines(centred(result.approximate_records), centred(records)).max(0)
    assert best.values.median() > 0.9
    stable = [evidence.stable for evidence in result.approximate_evidence]
    assert f"agrees on {sum(stable)}" in result.cause
    assert all(evidence.estimated_error is None for evidence in result.approximate_evidence)
    assert "fc1" in next(layer.reason for layer in result.layers if layer.name == "fc2")


def test_a_full_rank_is_refused(sent):
    _, update = sent
    noise = torch.randn(80, 576, generator=torch.Generator().manual_seed(0)).double()
    gradient = {n: g + (noise if n == "fc1.weight" else 0) for n, g in update.gradient.items()}
    noisy = type(update)(update.weights, gradient=gradient)
    result = audit(noisy, attack="cocktail-party", layer="fc1")
    assert result.status is Status.NOT_APPLICABLE
