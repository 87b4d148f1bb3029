from __future__ import annotations

import pytest
import torch

from gradaudit.applicability import (
    ATTACKS,
    LAYER_ATTACKS,
    Refusal,
    attempts_for,
    inputs_refusal,
    proposers_for,
    refusal,
    update_refusal,
)
from gradaudit.auditing import audit
from gradaudit.clients import FedAvg
from gradaudit.defenses import Quantise
from gradaudit.evidence import Status
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Setting
from gradaudit.models import mlp
from gradaudit.update import LinearLayer, LocalTraining, Update


def layer(rank: int, rows: int = 40, columns: int = 30, noise: float = 0.0) -> LinearLayer:
    generator = torch.Generator().manual_seed(rank)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    gradient = normal(rows, rank) @ normal(rank, columns) + noise * normal(rows, columns)
    return LinearLayer("fc1", normal(rows, columns), None, gradient, None)


def factors(of: LinearLayer):
    return factor_gradient(of.weight_gradient, generator=torch.Generator().manual_seed(0))


def test_a_clear_rank_is_accepted():
    of = layer(5)
    for attack in ("auto", "spear", "halfspace"):
        assert refusal(of, factors(of), attack) is None


def test_a_gradient_of_zeros():
    of = layer(0)
    found = refusal(of, factors(of), "auto")
    assert "'fc1' is zero in every entry" in found.cause
    assert "belongs to these weights" in found.remedy


def test_the_largest_rank():
    of = layer(30)
    found = refusal(of, factors(of), "auto")
    assert "the largest rank it can have, 30" in found.cause
    assert found.remedy


def test_noise_without_a_gap():
    of = layer(5, noise=0.5)
    found = refusal(of, factors(of), "auto")
    assert found is not None
    assert "noise" in found.cause + found.remedy


def test_the_closed_form_takes_one_record():
    assert "shows 3 records" in refusal(layer(3), factors(layer(3)), "closed_form").cause
    assert refusal(layer(1), factors(layer(1)), "closed_form") is None


@pytest.mark.parametrize(
    ("role", "output", "expected"),
    [
        ("input", False, (Setting.SPARSE_GRADIENT,)),
        ("input", True, (Setting.SPARSE_INPUT,)),
        ("interior", False, (Setting.SPARSE_GRADIENT, Setting.SPARSE_INPUT)),
        ("output", True, (Setting.SPARSE_INPUT,)),
    ],
)
def test_settings_by_role(role, output, expected):
    assert attempts_for(role, output, factors(layer(4)), live=(40, 30)) == expected


def test_one_record_needs_no_choice():
    for role in ("input", "interior", "output"):
        assert attempts_for(role, False, factors(layer(1)), live=(8, 8)) == (
            Setting.SPARSE_GRADIENT,
        )


def test_a_layer_too_narrow():
    found = attempts_for("input", False, factors(layer(10)), live=(20, 30))
    assert isinstance(found, Refusal)
    assert "20 live rows cannot give" in found.cause
    assert attempts_for("input", False, factors(layer(10)), live=(22, 30)) == (
        Setting.SPARSE_GRADIENT,
    )
    assert attempts_for("interior", False, factors(layer(10)), live=(20, 30)) == (
        Setting.SPARSE_INPUT,
    )


def test_an_attack_that_does_not_search_a_setting():
    found = attempts_for("output", True, factors(layer(4)), live=(40, 30), attack="halfspace")
    assert isinstance(found, Refusal)
    assert "halfspace" in found.cause


# The Cocktail Party attack proposes no directions: it separates sources.
@pytest.mark.parametrize("attack", sorted(set(LAYER_ATTACKS) - {"cocktail-party"}))
def test_every_attack_has_a_proposer_for_the_sparse_gradient(attack):
    assert proposers_for(attack, Setting.SPARSE_GRADIENT, 16)


def test_signs_are_no_gradient():
    of = layer(1)
    signs = LinearLayer("fc1", of.weight, None, 1e-3 * of.weight_gradient.sign(), None)
    found = refusal(signs, factors(signs), "auto")
    assert "signs" in found.cause
    assert "signs" in found.remedy


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_a_few_levels_are_no_gradient(bits):
    of = layer(3)
    rounded = Quantise(bits).on_sent({"": of.weight_gradient}, torch.Generator())[""]
    coarse = LinearLayer("fc1", of.weight, None, rounded, None)
    assert "values or fewer" in refusal(coarse, factors(coarse), "auto").cause
    found = refusal(of, factors(of), "auto")
    assert found is None or "values or fewer" not in found.cause


def test_two_records_of_zeros_and_ones_are_not_taken_for_levels():
    records = torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0]]).double()
    rows = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)).double()
    of = LinearLayer("fc1", torch.ones(6, 4).double(), None, rows @ records, None)
    found = refusal(of, factors(of), "auto")
    assert found is None or "values or fewer" not in found.cause


def test_inputs_of_zero_and_one_before_two_classes_are_not_taken_for_signs():
    record = (torch.arange(30) % 3 == 0).double()
    two = torch.tensor([0.25, -0.25]).double()[:, None] * record
    three = torch.tensor([0.25, -0.15, -0.1]).double()[:, None] * record
    for gradient in (two, three):
        of = LinearLayer("fc1", torch.ones_like(gradient), None, gradient, None)
        found = refusal(of, factors(of), "auto")
        assert found is None or "signs" not in found.cause


def trained(**settings):
    named = {"fc1.weight": torch.ones(3, 2)}
    return Update(named, delta=named, step=LocalTraining(**settings))


@pytest.mark.parametrize(
    ("settings", "attack", "cause"),
    [
        ({}, "rgap", None),
        ({"epochs": 3, "momentum": 0.9}, "auto", None),
        ({"optimizer": "adam"}, "auto", "'adam'"),
        ({"optimizer": "rmsprop"}, "rgap", "'rmsprop'"),
        ({"epochs": 3}, "dlg", "3 local steps"),
        ({"batch_size": 4}, "rgap", "unknown number of local steps"),
        ({"batch_size": 4, "records": 4}, "rgap", None),
        ({"weight_decay": 0.1}, "auto", "client's learning rate"),
        ({"weight_decay": 0.1, "learning_rate": 0.1}, "auto", None),
        ({"weight_decay": 0.1, "learning_rate": 0.1, "batch_size": 4}, "auto", "number of records"),
    ],
)
def test_local_training_rules_attacks_out(settings, attack, cause):
    found = update_refusal(trained(**settings), attack)
    assert (found is None) == (cause is None)
    assert found is None or (cause in found.cause and found.remedy)


def test_a_single_gradient_is_never_refused_for_how_it_came_about():
    named = {"fc1.weight": torch.ones(3, 2)}
    assert all(update_refusal(Update(named, named), attack) is None for attack in ATTACKS)


def test_an_audit_names_the_optimiser_and_attacks_nothing():
    for attack in ("auto", "rgap"):
        result = audit(trained(optimizer="adam"), attack=attack)
        assert result.status is Status.NOT_APPLICABLE
        assert "'adam'" in result.cause
        assert [report.analysed for report in result.layers] == [False]


def test_weight_decay_is_removed_before_an_audit():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(4, 30, generator=generator, dtype=torch.float64)
    training = LocalTraining(0.1, weight_decay=0.2)
    client = FedAvg(mlp(30, [60, 60], 3, seed=1, dtype=torch.float64), training=training)
    update, truth = client.update(inputs, torch.tensor([0, 1, 2, 0]))
    result = audit(update)
    assert result.records_recovered == 4
    distances = torch.cdist(result.records, truth.inputs)
    assert float(distances.min(0).values.max()) < 1e-8
    # What is reported is what was observed.
    assert result.update_sha256 == update.sha256()
    assert "weight decay 0.2" in result.assumptions[1]


def test_layers_behind_trained_ones_after_several_steps():
    named = {"conv.weight": torch.ones(2, 1, 3, 3), "fc.weight": torch.ones(3, 2)}
    several, single = LocalTraining(epochs=2), LocalTraining()

    def refused(change, step):
        update = Update(named, delta=change, step=step)
        (of,) = update.linear_layers()
        return inputs_refusal(update, of, ["conv"])

    assert "'conv' before it was trained" in refused(named, several).cause
    assert refused(named, single) is None
    # Frozen: not sent, or sent as zeros.
    assert refused({"fc.weight": named["fc.weight"]}, several) is None
    assert refused(named | {"conv.weight": torch.zeros(2, 1, 3, 3)}, several) is None
