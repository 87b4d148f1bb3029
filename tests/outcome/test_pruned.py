from __future__ import annotations

from dataclasses import replace

import torch

import gradaudit as ga
from gradaudit.defenses import parse_defense
from gradaudit.evidence import Spectrum, Status
from gradaudit.outcome.pruned import explain_pruned
from gradaudit.update import Update
from outcome.material import outcome

SPECTRUM = Spectrum((2.0, 1.0), 2, 0.1, 10.0, True, 30, 0.0, "")


def layer(least: float):
    weight = torch.randn(30, 40, generator=torch.Generator().manual_seed(0))
    change = weight * (weight.abs() > least)
    (only,) = Update({"fc.weight": weight}, {"fc.weight": change}).linear_layers()
    return only


def test_a_pruned_gradient_tells_no_batch_size():
    failed = replace(outcome(0, stopped="the time budget is used up"), spectrum=SPECTRUM)
    said = explain_pruned(failed, layer(0.7))
    assert said.batch_size is None
    assert said.status is failed.status is Status.BUDGET_EXHAUSTED
    assert said.cause.startswith(failed.cause)
    assert "pruning" in said.cause
    assert "larger budget seldom helps" in said.remedy
    assert "not tested" in said.remedy


def test_a_gradient_that_was_not_pruned_and_a_proof_stay_as_they_are():
    failed = replace(outcome(0), spectrum=SPECTRUM)
    assert explain_pruned(failed, layer(0.0)) is failed
    proven = replace(outcome(3), spectrum=SPECTRUM)
    assert explain_pruned(proven, layer(0.7)) is proven


def test_an_audit_does_not_take_the_rank_of_a_pruned_layer_for_the_batch():
    client = ga.clients.FedSGD(
        ga.models.mlp(60, [40, 40], 10, seed=0), defenses=[parse_defense("prune:share=0.8")]
    )
    records = torch.randn(4, 60, generator=torch.Generator().manual_seed(0))
    update, _ = client.update(records, [0, 1, 2, 3])
    result = ga.audit(update, budget=ga.Budget(seconds=3))
    assert not result.status.leak_proven
    assert result.batch_size is None
    assert "pruning" in result.cause
    assert "allow a larger budget" not in result.remedy.lower()
