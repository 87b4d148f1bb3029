from __future__ import annotations

import importlib
import json
from dataclasses import replace

import pytest
import torch
from torch import nn

import gradaudit as ga
from gradaudit.errors import InputError
from gradaudit.models import lenet, mlp
from gradaudit.planning.expect import expect
from gradaudit.planning.machine import machine_factor
from gradaudit.planning.result import TITLES

WIDTHS = (3072, 200, 200, 10)


def planned(**given):
    given.setdefault("heat_map", False)
    given.setdefault("calibrate", False)
    return ga.plan(**given)


def applies(said):
    return {each.attack for each in said.expectations if each.applies}


def test_a_batch_that_is_known_to_be_recovered():
    said = planned(widths=WIDTHS, batch_size=20)
    found = said.by_attack("halfspace")
    assert (found.records, found.confidence) == (20, "measured range")
    assert applies(said) == {"halfspace", "spear", "spear++", "peeling", "cocktail-party"}


def test_estimates_are_named_where_they_apply_and_recover_nothing():
    # Past every exact limit, and with any activation: it looks for no zeros.
    said = planned(widths=WIDTHS, batch_size=100, activation="sigmoid")
    assert applies(said) == {"cocktail-party"}
    found = said.by_attack("cocktail-party")
    assert (found.records, found.confidence) == (0, "measured range")
    assert "never a proof" in found.reason
    # 51 s at 50 records, 120 s not enough at 100 (gradient_matching.json).
    assert 51 < found.seconds < 240
    for given in ({"batch_size": 1}, {"batch_size": 200}, {"batch_size": 20, "noise": 1e-3}):
        assert "cocktail-party" not in applies(planned(widths=WIDTHS, **given))
    # As an audit has it: a batch that fills the layer's rank is refused, one below it is not.
    model, draw = mlp(30, [12], 3, seed=0), torch.Generator().manual_seed(0)
    for batch, fits in ((8, True), (30, False)):
        update, _ = ga.clients.FedSGD(model).update(
            torch.rand(batch, 30, generator=draw), [0] * batch
        )
        result = ga.audit(update, attack="cocktail-party", layer="fc1")
        assert (result.status is not ga.Status.NOT_APPLICABLE) is fits
        here = planned(widths=(30, 12, 3), batch_size=batch)
        assert ("cocktail-party" in applies(here)) is fits


def test_a_model_and_its_widths_give_the_same():
    model = mlp(24, [50, 50], 3)
    here = planned(model=model, input_shape=(24,), batch_size=8)
    there = planned(widths=(24, 50, 50, 3), batch_size=8)
    assert here.expectations == there.expectations


@pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
def test_one_record_is_for_the_recursion_as_an_audit_finds(activation):
    said = planned(widths=(30, 20, 2), activation=activation)
    assert {"rgap", "closed_form"} <= applies(said)
    assert ("halfspace" in applies(said)) is (activation == "relu")
    model = mlp(30, [20], 2, activation=activation, seed=0)
    record = torch.randn(1, 30, generator=torch.Generator().manual_seed(0))
    update, _ = ga.clients.FedSGD(model).update(record, [1])
    assert ga.audit(update, attack="rgap", model=model).records_recovered == 1


def test_what_sizes_say_is_what_an_audit_says():
    # A width below which an audit refuses is one that the plan refuses, with the same words.
    model = mlp(30, [12, 12], 3, seed=0)
    update, _ = ga.clients.FedSGD(model).update(
        torch.randn(10, 30, generator=torch.Generator().manual_seed(0)), [0, 1, 2] * 3 + [0]
    )
    said = planned(widths=(30, 12, 12, 3), batch_size=10).by_attack("halfspace")
    assert not said.applies
    assert "live rows cannot give" in said.reason
    assert ga.audit(update, attack="halfspace").records_recovered == 0


def test_other_optimisers_and_features_after_several_steps_are_refused():
    adam = ga.LocalTraining(epochs=2, optimizer="adam")
    assert applies(planned(widths=WIDTHS, batch_size=4, training=adam)) == set()
    steps = ga.LocalTraining(epochs=2, batch_size=2, learning_rate=0.1)
    assert applies(planned(widths=WIDTHS, batch_size=4, training=steps)) >= {"halfspace"}
    behind = planned(model=lenet(), input_shape=(1, 28, 28), batch_size=4, training=steps)
    assert "halfspace" not in applies(behind)


def test_a_secure_aggregation_is_one_large_batch():
    together = planned(widths=WIDTHS, batch_size=10, clients=4)
    assert together.expectations == planned(widths=WIDTHS, batch_size=40).expectations


def test_noise_is_for_the_halfspace_search_alone():
    said = planned(widths=WIDTHS, batch_size=20, noise=1e-4)
    assert applies(said) == {"halfspace"}
    assert said.by_attack("halfspace").records == pytest.approx(13)


def test_changes_are_the_smallest_past_the_limit():
    said = planned(widths=WIDTHS, batch_size=20)
    assert set(said.changes) == {e.attack for e in said.expectations if e.share > 0}
    for attack, found in said.changes.items():
        values = {change.lever: change.value for change in found}
        batch = int(values["batch size"].replace(",", ""))
        width = int(values["width"].replace(",", ""))

        def share(client, attack=attack):
            return expect(client, attack, core_seconds=60.0).share

        assert share(replace(said.client, batch_size=batch)) == 0
        assert share(replace(said.client, batch_size=batch - 1)) > 0
        assert share(said.client.with_width(width)) == 0
        assert share(said.client.with_width(width + 1)) > 0
        assert values["first layer's bias"] is None


def test_the_map_holds_the_client_and_falls_along_the_batch():
    said = planned(widths=WIDTHS, batch_size=20, heat_map=True)
    grid = said.heat_map
    assert 20 in grid.batches
    assert 200 in grid.widths
    for row in grid.shares:
        assert list(row) == sorted(row, reverse=True)
    assert grid.shares[grid.widths.index(200)][grid.batches.index(20)] == 1


def test_json_is_json():
    said = planned(widths=WIDTHS, batch_size=20, heat_map=True)
    data = json.loads(json.dumps(said.to_json(), allow_nan=False))
    assert [each["attack"] for each in data["attacks"]] == list(TITLES)


def test_a_slower_machine_takes_longer(monkeypatch):
    module = importlib.import_module("gradaudit.planning.plan")
    monkeypatch.setattr(module, "machine_factor", lambda: 2.0)
    twice = planned(widths=WIDTHS, batch_size=20, calibrate=True).by_attack("halfspace")
    once = planned(widths=WIDTHS, batch_size=20).by_attack("halfspace")
    assert twice.seconds == pytest.approx(2 * once.seconds)
    assert twice.gpu_seconds == once.gpu_seconds


def test_the_calibration_is_of_some_machine():
    # A factor of a hundred either way is no machine that runs these tests.
    assert 0.01 < machine_factor() < 100


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"widths": (3,)},
        {"widths": (3, 0, 2)},
        {"widths": (3, 4, 2), "batch_size": 0},
        {"widths": (3, 4, 2), "noise": -1.0},
        {"widths": (3, 4, 2), "activation": "swish"},
        {"widths": (3, 4, 2), "core_seconds": 0.0},
        {"model": nn.Linear(3, 2)},
    ],
)
def test_bad_input_is_named(given):
    with pytest.raises(InputError):
        planned(**given)
