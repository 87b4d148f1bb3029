"""When two results are the same, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from report.material import recovered, without_records

from gradaudit.evidence import SearchReport, Status
from gradaudit.result import AuditResult, Sameness, compare_results

FIRST = recovered(4)


def changed(result: AuditResult = FIRST, **fields) -> AuditResult:
    return replace(result, **fields)


def test_times_places_and_words_do_not_count():
    search = replace(FIRST.search, seconds={"total": 99.0}, device="cuda", threads=8, hurried=True)
    other = changed(
        cause="Said otherwise.", created="2031-01-01", source={"other": "0"}, search=search
    )
    found = compare_results(FIRST, other)
    assert found.sameness is Sameness.IDENTICAL
    assert (found.compared_records, found.largest_difference) == (4, 0.0)
    # What repeats has repeated, whatever the clock did.
    assert "cannot be promised" not in found.statement()


@pytest.mark.parametrize("name", ["records", "activation_gradients"])
def test_one_bit_is_told(name):
    array = getattr(FIRST, name).clone()
    array.view(torch.int64)[0, 0] ^= 1
    found = compare_results(FIRST, changed(**{name: array}))
    assert found.sameness is Sameness.SAME_VERDICT
    assert found.largest_difference < 1e-14


def test_zeros_of_two_signs_differ_and_a_nan_is_itself():
    records = FIRST.records.clone()
    records[0, 0], records[1, 1] = 0.0, torch.nan
    first, second = changed(records=records), changed(records=records.clone())
    assert compare_results(first, second).sameness is Sameness.IDENTICAL
    second.records[0, 0] = -0.0
    assert compare_results(first, second).sameness is not Sameness.IDENTICAL


def test_one_number_of_the_evidence_is_told():
    evidence = (replace(FIRST.evidence[0], vanishing_entries=3), *FIRST.evidence[1:])
    assert compare_results(FIRST, changed(evidence=evidence)).sameness is Sameness.SAME_VERDICT


def test_the_order_of_records_means_nothing():
    order = [3, 1, 0, 2]
    other = changed(
        records=FIRST.records[order],
        activation_gradients=FIRST.activation_gradients[:, order],
        evidence=tuple(FIRST.evidence[i] for i in order),
    )
    found = compare_results(FIRST, other)
    assert (found.sameness, found.largest_difference) == (Sameness.SAME_VERDICT, 0.0)


@pytest.mark.parametrize(("times", "same"), [(4.0, True), (8.0, False)])
def test_records_may_differ_by_what_their_errors_allow(times, same):
    evidence = tuple(replace(record, estimated_error=1e-3) for record in FIRST.evidence)
    # Allowed is three times the sum of both errors, as a root mean square.
    other = changed(evidence=evidence, records=FIRST.records + times * 1e-3)
    found = compare_results(changed(evidence=evidence), other)
    assert found.sameness is (Sameness.SAME_VERDICT if same else Sameness.DIFFERENT)
    if not same:
        assert "certified records differ by up to 0.008" in found.statement()


def test_without_a_stated_error_only_rounding_is_allowed():
    evidence = tuple(replace(record, estimated_error=None) for record in FIRST.evidence)
    first = changed(evidence=evidence)
    near, far = (
        changed(evidence=evidence, records=FIRST.records * factor) for factor in (1 + 1e-9, 1.01)
    )
    assert compare_results(first, near).sameness is Sameness.SAME_VERDICT
    assert compare_results(first, far).sameness is Sameness.DIFFERENT


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"status": Status.PARTIAL}, "the status was 'recovered' and is 'partial'"),
        ({"layer": "fc9"}, "and is 'fc9'"),
        ({"batch_size": 9}, "the batch size was 4 and is 9"),
        ({"certificate": replace(FIRST.certificate, kind="none")}, "the kind of proof"),
        (
            {"evidence": (replace(FIRST.evidence[0], label=77), *FIRST.evidence[1:])},
            "the certified records' classes or copies are others",
        ),
        ({"records": FIRST.records[:, :5]}, "certified records differ by up to inf"),
    ],
)
def test_another_verdict_is_said(fields, words):
    found = compare_results(FIRST, changed(**fields))
    assert found.sameness is Sameness.DIFFERENT
    assert words in found.statement()


def test_a_result_without_its_arrays_is_compared_by_its_evidence():
    bare = changed(records=None, activation_gradients=None)
    found = compare_results(bare, FIRST)
    assert found.sameness is Sameness.IDENTICAL
    assert found.statement() == "The same result, bit for bit: evidence and verdict."
    evidence = (replace(FIRST.evidence[0], vanishing_entries=3), *FIRST.evidence[1:])
    other = compare_results(bare, changed(evidence=evidence))
    assert "no certified records were there to be compared" in other.statement()


def test_estimates_count_for_the_bits():
    def estimates(value: float) -> AuditResult:
        return without_records(Status.NOT_RECOVERED, search=SearchReport(counters={"n": value}))

    assert compare_results(estimates(1), estimates(1)).sameness is Sameness.IDENTICAL
    assert compare_results(estimates(1), estimates(2)).sameness is Sameness.SAME_VERDICT


def test_circumstances_and_hurry_are_said():
    then = replace(FIRST.search, versions={"torch": "2.12"}, threads=2, machine={"gpu": "A"})
    now = replace(FIRST.search, versions={"torch": "2.13"}, threads=1, hurried=True)
    other = changed(search=now, records=FIRST.records * (1 + 1e-15))
    text = compare_results(changed(search=then), other).statement()
    assert "Then and now: torch 2.12 and 2.13, threads 2 and 1." in text
    assert text.endswith("cannot be promised.")
