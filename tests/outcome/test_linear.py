from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from certify.settings import case

from gradaudit.evidence import Certificate, RecordEvidence, Status
from gradaudit.linear.approximate import Approximation
from gradaudit.linear.disaggregate import Batch
from gradaudit.linear.invert import NOTHING_LEFT, Inversion
from gradaudit.outcome import Outcome, describe
from gradaudit.theory import expected_submatrices
from outcome.material import outcome

STOPPED = "the time budget of 5 seconds is used up"


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"certified": 3}, Status.RECOVERED),
        ({"certified": 3, "stopped": STOPPED}, Status.RECOVERED),
        ({"certified": 2}, Status.PARTIAL),
        ({"certified": 1, "stopped": STOPPED}, Status.PARTIAL),
        ({"certified": 0}, Status.NOT_RECOVERED),
        ({"certified": 0, "stopped": STOPPED}, Status.BUDGET_EXHAUSTED),
        ({"certified": 0, "found": False, "stopped": STOPPED}, Status.BUDGET_EXHAUSTED),
        ({"certified": 1, "size": 1}, Status.RECOVERED),
        ({"certified": 0, "size": 1}, Status.NOT_RECOVERED),
    ],
)
def test_the_status_follows_from_what_was_certified(options, status):
    made = outcome(**options)
    assert made.status is status
    assert made.cause.endswith(".")
    assert made.remedy.endswith(".")
    assert "safe" not in (made.cause + made.remedy).lower()


def part(certified: int, *, estimates: int = 0, stopped: str = STOPPED):
    """What becomes of a search that found two of three records, and certified so many."""
    sample = case(3)
    verdict = sample.judge(sample.inputs)
    batch = Batch(sample.inputs[:2], verdict.gradients[:, :2], sample.inputs[:2, :3], True)
    evidence = tuple(RecordEvidence(j < certified, estimated_error=1e-9) for j in range(2))
    verdict = replace(verdict, evidence=evidence, certificate=Certificate("explained_rows"))
    inversion = Inversion(None, 2, None, stopped, partial=batch, directions=batch.directions)
    sizes = sample.inputs[:estimates].square().mean(1).sqrt()
    known = Approximation(
        torch.arange(estimates), sample.inputs[:estimates], sizes * 0.07, {"it is not bounded": 1}
    )
    return describe(
        sample.problem, "input", inversion, verdict, ("halfspace",), approximation=known
    )


def test_of_a_part_only_what_is_certified_is_shown():
    made = part(1)
    assert made.status is Status.PARTIAL
    assert len(made.records) == len(made.evidence) == made.gradients.shape[1] == 1
    assert made.certificate.kind == "explained_rows"
    assert STOPPED in made.cause
    none = part(0)
    assert none.status is Status.BUDGET_EXHAUSTED
    assert none.records is none.gradients is None
    assert not none.evidence
    assert part(0, stopped=NOTHING_LEFT).status is Status.NOT_RECOVERED


def test_more_time_is_advised_where_it_may_help():
    assert "A larger budget may recover the rest." in part(1).remedy
    complete = part(1, stopped=NOTHING_LEFT).remedy
    assert "nothing left to try" in complete
    assert "budget" not in complete
    unproven = outcome(2).remedy
    assert "not proven" in unproven
    assert "budget" not in unproven


def test_estimates_are_said_but_prove_nothing():
    made = part(0, estimates=2)
    assert made.status is Status.BUDGET_EXHAUSTED
    assert made.cause.endswith(
        "No record is proven; 2 are known approximately, to within 7% of their size."
    )
    assert len(made.approximate_records) == len(made.approximate_evidence) == 2
    assert made.records is None
    assert part(1, estimates=1).cause.endswith(
        "1 more is known approximately, to within 7% of its size."
    )
    assert "approximately" not in part(1).cause
    assert made.counters == {"not estimated, as it is not bounded": 1.0}


def test_words_for_one_and_for_many():
    assert "holds 1 distinct record, and it was solved for" in outcome(1, size=1).cause
    assert "holds 3 distinct records, and every one was solved for" in outcome(3).cause
    assert "3 distinct inputs" in outcome(3, role="interior").cause
    assert "to within a predicted error of 1e-09 per entry" in outcome(3).cause
    assert "2 of 3 records" in outcome(2).cause


def test_a_failure_is_no_evidence_of_safety():
    assert "does not show" in outcome(0).remedy
    assert "not show" in outcome(0, stopped=STOPPED).remedy
    assert STOPPED in outcome(0, stopped=STOPPED).cause
    assert outcome(0).cause.endswith("Why.")


def test_more_certified_ranks_higher():
    order = [outcome(n, stopped=s) for n, s in ((0, ""), (0, STOPPED), (1, ""), (3, ""))]
    ranks = [made.rank() for made in order]
    assert ranks == sorted(set(ranks))
    assert Outcome(Status.NOT_APPLICABLE, "", "").rank() < ranks[0]


@pytest.mark.parametrize(("times", "more"), [(1.0, True), (99.0, True), (101.0, False)])
def test_more_time_is_not_advised_where_sampling_was_in_vain(times, more):
    tried = times * expected_submatrices(3)
    sample = case(3)
    inversion = Inversion(None, 1, None, STOPPED, {"submatrices": tried})
    made = describe(sample.problem, "input", inversion, None, ("spear",))
    assert made.status is Status.BUDGET_EXHAUSTED
    assert ("Allow a larger budget" in made.remedy) is more
    assert ("zeros that a ReLU gives" in made.remedy) is not more
    assert "not show" in made.remedy
