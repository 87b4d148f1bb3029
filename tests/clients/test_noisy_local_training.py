"""Local training and noise together: what is recovered is right to within the estimate."""

from __future__ import annotations

import pytest
import torch

import gradaudit as ga

RECORDS, FEATURES = 8, 80
# Of a true error over its estimate. Over eight records the largest was 1.9 in the runs tried.
LARGEST_RATIO = 3.0


@pytest.mark.parametrize(
    ("defense", "noise"),
    [
        # A step adds z C / b to the mean gradient, at rate 0.01; six independent steps.
        (ga.defenses.DPSGD(2.0, 1e-3), 6**0.5 * 0.01 * 1e-3 * 2.0 / 4),
        (ga.defenses.GaussianNoise(1e-5), 1e-5),
    ],
)
def test_records_of_noisy_local_training_are_known_to_within_their_estimate(defense, noise):
    generator = torch.Generator().manual_seed(0)
    records = torch.randn(RECORDS, FEATURES, generator=generator, dtype=torch.float64)
    model = ga.models.mlp(FEATURES, [200, 60], 4, seed=0, dtype="float64")
    training = ga.LocalTraining(0.01, epochs=3, batch_size=4, records=RECORDS)
    client = ga.clients.FedAvg(model, training=training, defenses=[defense])
    update, _ = client.update(records, torch.arange(RECORDS) % 4)
    assert update.noise == pytest.approx(noise)
    result = ga.audit(update, budget=ga.Budget(seconds=60))
    assert result.records_recovered == RECORDS
    assert result.certificate.kind == "within_noise"
    distance = torch.cdist(result.records, records) / FEATURES**0.5
    assert sorted(distance.argmin(1).tolist()) == list(range(RECORDS))
    for error, evidence in zip(distance.amin(1).tolist(), result.evidence, strict=True):
        assert error < LARGEST_RATIO * evidence.estimated_error
