"""Certificates under noise: true records, each to within its error, and nothing else."""

from __future__ import annotations

import pytest
import torch

import gradaudit as ga
from gradaudit.budget import Budget, Control
from gradaudit.certify import certify_under_noise
from gradaudit.certify.mixtures import with_their_likes
from gradaudit.evidence import Status
from gradaudit.noisy import recover_under_noise
from tests.noisy.material import BATCH_SIZE, Case, noisy_case


@pytest.fixture(scope="module")
def case() -> Case:
    return noisy_case(0.03)


@pytest.fixture(scope="module")
def batch(case):
    found = recover_under_noise(
        case.problem,
        generator=torch.Generator().manual_seed(0),
        control=Control(Budget(seconds=60)),
    ).batch
    assert found is not None
    return found


def judge(case, batch, records, *, scale: float = 1.0):
    return certify_under_noise(
        case.problem,
        records,
        entry_error=scale * batch.errors.entry,
        side_error=scale * batch.errors.side,
    )


def test_true_records_are_certified_and_never_called_exact(case, batch):
    verdict = judge(case, batch, batch.records)
    assert verdict.recovered == BATCH_SIZE
    assert verdict.certificate.kind == "within_noise"
    assert "not exactly" in verdict.certificate.statement
    assert all(record.estimated_error for record in verdict.evidence)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_mixed_records_are_not(case, batch, share):
    mixed = (1 - share) * batch.records + share * batch.records.roll(1, 0)
    assert judge(case, batch, mixed).recovered == 0


@pytest.mark.parametrize("seed", range(20))
def test_neither_random_ones_nor_any_other_basis_of_the_span(case, batch, seed):
    # Not a seed that the records themselves are drawn with.
    generator = torch.Generator().manual_seed(1000 + seed)
    random = torch.randn(batch.records.shape, generator=generator, dtype=torch.float64)
    assert judge(case, batch, random).recovered == 0
    basis = torch.randn(BATCH_SIZE, BATCH_SIZE, generator=generator, dtype=torch.float64)
    # Explains the gradient as well as the records do: only the neurons tell them apart.
    other = basis @ batch.records / BATCH_SIZE**0.5
    assert judge(case, batch, other).recovered == 0


def test_one_wrong_record_is_not_certified(case, batch):
    records = batch.records.clone()
    records[0] = (records[0] + records[1]) / 2
    verdict = judge(case, batch, records)
    assert not verdict.evidence[0].recovered
    # It may be mixed into the others, and nothing bounds by how much.
    assert verdict.recovered == 0


@pytest.mark.parametrize("difference", [0.1, 0.3])
@pytest.mark.parametrize("noise", [1e-3, 1e-2])
def test_the_mixture_of_records_that_resemble_each_other_is_known_for_one(noise, difference):
    # Few neurons are on the wrong side of such a mixture, but those are far from zero.
    case = noisy_case(noise, alike=difference, seed=3)
    found = recover_under_noise(
        case.problem,
        generator=torch.Generator().manual_seed(0),
        control=Control(Budget(seconds=60)),
    ).batch
    assert found is not None
    mixed = case.inputs.clone()
    mixed[0] = 0.46 * case.inputs[0] + 0.54 * case.inputs[1]
    errors = torch.full((BATCH_SIZE,), 1e-3).double()
    verdict = certify_under_noise(case.problem, mixed, entry_error=errors, side_error=errors)
    wrong = float(case.errors_of(mixed[:1])[0])
    first = verdict.evidence[0]
    assert not first.recovered or first.estimated_error > wrong / 3
    # And whatever the search itself comes to is right if it is certified.
    result = ga.audit(case.update, budget=Budget(seconds=60))
    if result.certificate.kind == "within_noise":
        true = {"fc1": case.inputs, "fc2": case.hidden}[result.layer]
        off = (torch.cdist(result.records, true).amin(1) / true.shape[1] ** 0.5).tolist()
        for error, record in zip(off, result.evidence, strict=True):
            assert error < 3 * record.estimated_error


def test_a_record_without_its_batch_leaves_too_much(case, batch):
    verdict = certify_under_noise(
        case.problem,
        batch.records[:4],
        entry_error=batch.errors.entry[:4],
        side_error=batch.errors.side[:4],
    )
    assert verdict.recovered == 0
    assert "unexplained" in verdict.evidence[0].reason


def test_repeated_records_are_refused(case, batch):
    records = batch.records.clone()
    records[0] = records[1]
    assert judge(case, batch, records).recovered == 0


def test_claims_of_too_large_errors_prove_nothing(case, batch):
    assert judge(case, batch, batch.records, scale=1e3).recovered == 0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_gradients_scale_does_not_matter(scale):
    base = noisy_case(0.03)
    scaled = ga.Update(
        base.update.weights,
        {name: scale * value for name, value in base.update.observed.items()},
    )
    result = ga.audit(scaled, budget=Budget(seconds=60))
    assert result.status is Status.RECOVERED
    assert result.batch_size == result.records_recovered == BATCH_SIZE
    errors, which = base.errors_of(result.records)
    assert sorted(which.tolist()) == list(range(BATCH_SIZE))
    for error, record in zip(errors.tolist(), result.evidence, strict=True):
        assert error < 2.5 * record.estimated_error


def test_the_audit_finds_labels_and_says_what_it_rests_on():
    base = noisy_case(0.02)
    result = ga.audit(base.update, budget=Budget(seconds=60))
    assert result.certificate.kind == "within_noise"
    _, which = base.errors_of(result.records)
    told = [
        (label, int(base.truth.labels[place]))
        for label, place in zip(result.labels, which.tolist(), strict=True)
        if label is not None
    ]
    assert len(told) >= 3
    assert all(label == truth for label, truth in told)
    assert any("as it was given" in line for line in result.assumptions)
    assert "exact" not in result.summary() + result.cause


def test_noise_above_all_records_is_said_to_hide_them():
    result = ga.audit(noisy_case(30.0).update, budget=Budget(seconds=20))
    assert not result.status.leak_proven
    assert "noise" in result.cause


def test_a_difference_of_weights_is_judged_like_a_gradient():
    base = noisy_case(0.03)
    delta = {name: -0.1 * value for name, value in base.update.observed.items()}
    update = ga.Update(base.update.weights, delta=delta, noise=0.1 * base.level)
    result = ga.audit(update, budget=Budget(seconds=60))
    assert result.records_recovered == BATCH_SIZE
    assert sum(label is not None for label in result.labels) >= 3


def test_records_that_resemble_each_other_are_certified_together_or_not_at_all():
    # A chain: the third resembles the second only, the fourth none.
    records = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.4, 0.0], [1.0, 0.8, 0.0], [0.0, 0.0, 1.0]])
    assert with_their_likes(records, torch.ones(4).bool()).all()
    certified = torch.tensor([False, True, True, True])
    assert with_their_likes(records, certified).tolist() == [False, False, False, True]
    certified = torch.tensor([True, True, True, False])
    assert torch.equal(with_their_likes(records, certified), certified)
