from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from certify.parts import MISSING, SIZE, Parts, parts
from gradaudit.evidence import RecordEvidence

OTHERS = [j for j in range(SIZE) if j != MISSING]
SEEDS = range(5)


def certified(sample: Parts, kept: list[int], **options) -> list[tuple[RecordEvidence, float, int]]:
    """Evidence of every certified record, its error, and which true record it is."""
    found = sample.found(kept)
    batch = sample.batch(found)
    if batch is None:
        return []
    verdict = sample.judge(batch, found, **options)
    error, nearest = sample.errors(batch.records)
    return [
        (evidence, float(error[j]), int(nearest[j]))
        for j, evidence in enumerate(verdict.evidence)
        if evidence.recovered
    ]


def subsets(seed: int) -> list[list[int]]:
    """All that can be found, and some of it."""
    order = torch.randperm(len(OTHERS), generator=torch.Generator().manual_seed(seed)).tolist()
    return [OTHERS, [OTHERS[i] for i in order[:-2]]]


@pytest.mark.parametrize(
    ("options", "fewest"),
    [
        ({}, 40),
        ({"classes": 3}, 40),
        ({"hidden": (30,)}, 40),
        ({"dtype": torch.float32}, 40),
    ],
    ids=["ten classes", "three", "three layers", "float32"],
)
def test_records_of_an_incomplete_batch_are_certified_and_right(options, fewest):
    count = 0
    for seed in SEEDS:
        sample = parts(seed, **options)
        for kept in subsets(seed):
            for evidence, error, nearest in certified(sample, kept):
                count += 1
                assert error <= evidence.estimated_error
                assert nearest in kept
                assert evidence.label == sample.labels[nearest]
                assert evidence.vanishing_entries > evidence.vanishing_needed
                assert not evidence.reason
    print(f"{count} certified")
    assert count >= fewest


@pytest.mark.parametrize("beta", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("near", [None, 0.3, 0.03])
def test_a_missing_twin_cannot_hide_in_the_rows_of_another(near, beta):
    """Its gradient is proportional where both fire: rows are explained by a mixture of the two."""
    mixtures = others = 0
    for seed in SEEDS:
        sample = parts(seed, near=near, twin=beta, lowered=0.6)
        if sample is None:
            continue
        # Others are missing as well: what a weak record leaves alone is hardly seen at all.
        found = sample.found(OTHERS[:-2])
        batch = sample.batch(found) if len(found) else None
        if batch is None:
            continue
        verdict = sample.judge(batch, found)
        error, nearest = sample.errors(batch.records)
        for j, evidence in enumerate(verdict.evidence):
            wrong = evidence.estimated_error is None or error[j] > evidence.estimated_error
            mixtures += bool(error[j] > 1e-9)
            others += evidence.recovered and int(nearest[j]) > 1
            assert not (evidence.recovered and wrong), (float(error[j]), evidence)
    print(f"{mixtures} mixtures, none certified; {others} other records certified")
    assert others > 8


def test_there_are_such_mixtures():
    """So that the test above can fail: rows and zeros alone would let them pass."""
    mistaken = 0
    for seed in SEEDS:
        sample = parts(seed, near=0.3, twin=1e-3, lowered=0.6)
        found = sample.found(OTHERS[:-2])
        batch = sample.batch(found) if len(found) else None
        if batch is None:
            continue
        error, _ = sample.errors(batch.records)
        evidence = sample.judge(batch, found, network=False).evidence
        mistaken += sum(
            "no network" in e.reason and float(error[j]) > 100 * (e.estimated_error or 0.0)
            for j, e in enumerate(evidence)
        )
    assert mistaken >= 2


@pytest.mark.parametrize("near", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_near_duplicates_are_told_apart_or_refused(near, dtype):
    for seed in SEEDS:
        sample = parts(seed, near=near, lowered=0.6, dtype=dtype)
        if sample is None:
            continue
        for evidence, error, _ in certified(sample, OTHERS):
            assert error <= evidence.estimated_error


@pytest.mark.parametrize("hidden", [(), (30,)])
def test_two_classes_prove_nothing(hidden):
    """All gradients are proportional there, so that any record could hide behind any other."""
    for seed in SEEDS[:4]:
        sample = parts(seed, classes=2, hidden=hidden)
        assert not certified(sample, OTHERS)


def test_nothing_is_certified_without_a_network():
    sample = parts(0)
    found = sample.found(OTHERS)
    verdict = sample.judge(sample.batch(found), found, network=False)
    assert not verdict.recovered
    assert verdict.certificate.kind == "none"
    assert any("no network" in evidence.reason for evidence in verdict.evidence)


def test_a_network_of_other_weights_confirms_nothing():
    sample, other = parts(0), parts(1)
    found = sample.found(OTHERS)
    batch = sample.batch(found)
    assert sample.judge(batch, found).recovered > 5
    verdict = replace(sample, network=other.network).judge(batch, found)
    assert not verdict.recovered
    assert any("differs from its share" in evidence.reason for evidence in verdict.evidence)


@pytest.mark.parametrize("size", [1e-1, 1e-3, 1e-6])
def test_wrong_records_are_refused(size):
    """Mixed with another record, the missing one, noise, or scaled: whoever proposed them."""
    refused = 0
    for seed in SEEDS[:4]:
        sample = parts(seed)
        found = sample.found(OTHERS)
        batch = sample.batch(found)
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(batch.records.shape, generator=generator, dtype=torch.float64)
        inside = noise @ sample.problem.factors.right @ sample.problem.factors.right.T
        for wrong in (
            batch.records + size * batch.records.roll(1, 0),
            batch.records + size * sample.inputs[MISSING],
            batch.records + size * (sample.inputs[MISSING] - batch.records),
            batch.records * (1 + size),
            batch.records + size * inside,
            batch.records.roll(1, 0),
            -batch.records,
        ):
            proposed = replace(batch, records=wrong)
            error, _ = sample.errors(wrong)
            for j, evidence in enumerate(sample.judge(proposed, found).evidence):
                if evidence.recovered:
                    assert error[j] <= evidence.estimated_error
                else:
                    refused += 1
    assert refused > 100


def test_a_certificate_says_what_was_checked():
    sample = parts(2)
    found = sample.found(OTHERS)
    certificate = sample.judge(sample.batch(found), found).certificate
    assert certificate.kind == "explained_rows"
    assert {check.name for check in certificate.checks} == {
        "explained_rows_residual",
        "explained_rows_bias",
    }
    assert all(check.passed for check in certificate.checks)
