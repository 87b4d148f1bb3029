"""What a later layer gives while noise hides records in it that another layer shows."""

from __future__ import annotations

import pytest
import torch

import gradaudit as ga
from gradaudit.evidence import Certificate, RecordEvidence, Status
from gradaudit.outcome import Outcome
from gradaudit.outcome.noisy import without_hidden_records


def test_a_mixture_in_a_later_layer_is_no_record(data_folder):
    # 20 records: the first layer shows more of them than the fifth, whose certified "record" was
    # a mixture, ten times as far from every true input as its estimated error.
    source = ga.data.load_source(str(data_folder / "cifar10_2000.npz"))
    batch = source.batch(20, seed=0, dtype=torch.float64)
    model = ga.models.mlp(batch.inputs[0].numel(), [200] * 5, 10, seed=0, dtype="float64")
    client = ga.clients.FedSGD(model, defenses=[ga.defenses.GaussianNoise(3e-4)], seed=0)
    result = ga.audit(
        client.update(batch.inputs, batch.labels)[0], seed=0, budget=ga.Budget(seconds=60)
    )
    assert not result.status.leak_proven
    assert result.records is None
    assert result.certificate.kind != "within_noise"


@pytest.mark.parametrize("kind", ["within_noise", "layer"])
def test_a_layer_that_shows_fewer_records_than_another_gives_none(kind):
    # Whichever attack it was: a mean of two records is exact for neither.
    found = Outcome(
        Status.RECOVERED,
        "Found.",
        "",
        layer="fc2",
        batch_size=2,
        records=torch.zeros(2, 3),
        evidence=(RecordEvidence(True),) * 2,
        certificate=Certificate(kind),
    )
    taken_back = without_hidden_records(found, 3)
    assert taken_back.status is Status.NOT_RECOVERED
    assert taken_back.records is None
    assert "another layer shows 3 records" in taken_back.cause
    for shown in (0, 2):
        assert without_hidden_records(found, shown) is found
