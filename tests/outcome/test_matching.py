"""A match whose size the gradient does not tell is given up to a factor."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from rgap.networks import small_cnn

from gradaudit.certify.reconstruction import judge_reconstruction
from gradaudit.clients import FedSGD
from gradaudit.evidence import Status
from gradaudit.gradient_matching import Match
from gradaudit.models.loaded import load_model
from gradaudit.models.losses import get_loss
from gradaudit.outcome.matching import BatchSize, describe_match


@dataclass
class Found:
    """A match of one record, and the verdict on it."""

    match: Match
    verdict: object

    def outcome(self, *, loss_given=True):
        size = BatchSize(1, "as given")
        return describe_match(self.match, self.verdict, "dlg", size, (), loss_given=loss_given)


def found(model, images, labels, *, scale=1.0):
    loss = get_loss("binary_cross_entropy")
    update, _ = FedSGD(model, loss).update(images, labels)
    loaded, generator = load_model(model, update), torch.Generator().manual_seed(0)
    records = images * scale
    verdict = judge_reconstruction(loaded, update, loss, records, labels, generator=generator)
    match = Match(records, labels, 0.0, (0.0,), 0.0, "as given", "", {}, {})
    return Found(match, verdict)


@pytest.fixture
def case():
    model = small_cnn(outputs=1, scale=0.6)
    generator = torch.Generator().manual_seed(3)
    images = torch.rand(1, 2, 8, 8, generator=generator, dtype=torch.float64)
    return model, images, torch.tensor([int(model(images)[0, 0] > 0)])


def test_either_multiple_with_the_same_gradient_gives_the_record_up_to_a_factor(case):
    model, images, labels = case
    first = found(model, images, labels)
    for scale in (1.0, first.verdict.twin.factor):
        outcome = found(model, images, labels, scale=scale).outcome()
        assert outcome.status is Status.RECOVERED
        assert not outcome.scale_identified
        assert "known up to a positive factor" in outcome.cause
        direction = images.flatten(1) / images.norm()
        error = float((outcome.records - direction).square().mean().sqrt())
        assert error <= 50 * outcome.evidence[0].estimated_error + 1e-12


def test_a_size_that_rests_on_a_loss_that_nobody_named_is_none(case):
    model, images, labels = case
    lone = found(model, images, 1 - labels)
    assert lone.verdict.twin is None
    assert lone.outcome(loss_given=True).scale_identified
    unnamed = lone.outcome(loss_given=False)
    assert not unnamed.scale_identified
    assert "name the loss" in unnamed.cause
    assert float(unnamed.records.norm()) == pytest.approx(1.0)
