from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

import gradaudit as ga
from gradaudit.budget import Budget, Control
from gradaudit.noisy import recover_under_noise
from gradaudit.noisy.errors import estimate_errors
from gradaudit.noisy.joint import fit_jointly
from gradaudit.noisy.search import search_under_noise
from tests.noisy.material import BATCH_SIZE, Case, noisy_case


def control() -> Control:
    return Control(Budget(seconds=60))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def true_directions(case: Case) -> torch.Tensor:
    factors = case.problem.factors
    rows = case.inputs @ factors.right
    return normalize(torch.linalg.inv(rows).T * factors.values, dim=1)


@pytest.mark.parametrize("relative", [0.003, 0.03, 0.1])
def test_every_record_is_recovered_near_the_floor(relative):
    case = noisy_case(relative)
    found = recover_under_noise(case.problem, generator=generator(), control=control())
    assert found.directions_found == BATCH_SIZE
    assert found.stopped == ""
    assert found.batch is not None
    errors, which = case.errors_of(found.batch.records)
    assert sorted(which.tolist()) == list(range(BATCH_SIZE))
    # Oracle: least squares with the true activation gradients.
    solution = torch.linalg.lstsq(case.true_gradients, case.layer.weight_gradient).solution
    floor = (solution - case.inputs).square().mean(1).sqrt()[which]
    # What is mixed in of other records comes on top: more the fewer features there are.
    assert bool((errors < 2.5 * floor).all())
    assert float((errors / floor).median()) < 1.6
    ratio = errors / found.batch.errors.entry
    assert bool(((ratio > 0.5) & (ratio < 2)).all())
    torch.testing.assert_close(found.batch.errors.floor, floor, rtol=0.3, atol=0.0)


def test_the_error_is_in_proportion_to_the_noise():
    errors = []
    for relative in (0.003, 0.03):
        case = noisy_case(relative)
        fit = fit_jointly(case.problem, true_directions(case))
        assert fit is not None
        assert fit.rounds < 40
        errors.append(estimate_errors(case.problem, fit, generator=generator()).entry.sort().values)
    torch.testing.assert_close(
        errors[1] / errors[0], torch.full_like(errors[0], 10), rtol=0.2, atol=0
    )


def test_a_wrong_direction_is_told_by_what_it_explains_and_by_the_temperature():
    case = noisy_case(0.03)
    directions = true_directions(case)
    right = fit_jointly(case.problem, directions)
    directions[0] = normalize(torch.randn(BATCH_SIZE, generator=generator(3)).double(), dim=0)
    wrong = fit_jointly(case.problem, directions)
    assert right is not None
    assert wrong is not None
    assert float(right.temperature.median()) <= 2
    assert int(wrong.evidence.argmin()) == 0
    assert float(wrong.evidence[0]) < 0.4 * float(right.evidence.median())


def test_dependent_directions_have_no_fit():
    case = noisy_case(0.03)
    directions = true_directions(case)
    directions[0] = directions[1]
    assert fit_jointly(case.problem, directions) is None


def test_a_single_record_needs_no_search():
    case = noisy_case(0.1, batch_size=1)
    found = search_under_noise(case.problem, generator=generator(), control=control())
    assert (found.found, found.starts) == (1, 0)
    batch = recover_under_noise(case.problem, generator=generator(), control=control()).batch
    assert batch is not None
    assert float(case.errors_of(batch.records)[0]) < 2 * float(batch.errors.entry)


def test_the_same_seed_gives_the_same_records():
    case = noisy_case(0.05)
    first, second = (
        recover_under_noise(case.problem, generator=generator(4), control=control()).batch
        for _ in range(2)
    )
    assert first is not None
    assert second is not None
    # Not to the last bit: products round as their operands lie in memory.
    torch.testing.assert_close(first.records, second.records, rtol=0.0, atol=1e-10)


def test_a_search_without_time_completes_the_basis_and_says_why():
    case = noisy_case(0.05)
    spent = Control(Budget(seconds=1e-9))
    found = search_under_noise(case.problem, generator=generator(), control=spent)
    assert found.found == 0
    assert found.stopped
    torch.testing.assert_close(
        found.directions @ found.directions.T, torch.eye(BATCH_SIZE).double()
    )


def test_known_directions_are_not_looked_for():
    case = noisy_case(0.03)
    known = true_directions(case)[:4]
    found = search_under_noise(case.problem, generator=generator(), control=control(), known=known)
    assert torch.equal(found.directions[:4], known)
    overlap = (found.directions[4:] @ true_directions(case)[4:].T).abs()
    assert bool((overlap.amax(1) > 0.9).all())


def test_mixtures_of_photos_that_are_not_centred_are_told_by_their_zeros(monkeypatch):
    # They resemble each other so much that mixtures explain nearly what records do.
    batch = ga.data.load_source("patches?size=8").batch(8, seed=2, dtype=torch.float64)
    model = ga.models.mlp(192, [120, 60], 5, seed=2, dtype="float64")
    client = ga.clients.FedSGD(model, defenses=[ga.defenses.DPSGD(1.0, 1e-5)], seed=2)
    update, truth = client.update(batch.inputs, batch.labels % 5, batch.preprocessing)

    def audited() -> ga.AuditResult:
        return ga.audit(update, seed=2, layer="fc1", budget=Budget(seconds=60))

    result = audited()
    assert result.records_recovered == 8
    distance = torch.cdist(result.records.double(), truth.inputs.flatten(1)) / 192**0.5
    for error, record in zip(distance.amin(1).tolist(), result.evidence, strict=True):
        assert error < 3 * record.estimated_error
    monkeypatch.setattr("gradaudit.noisy.recover.STRICT_ATTEMPTS", 0)
    assert audited().records_recovered == 0
