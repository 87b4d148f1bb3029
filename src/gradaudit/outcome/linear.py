"""What a search through one linear layer came to, in the words of a result."""

from __future__ import annotations

from dataclasses import replace

from gradaudit.certify import Verdict
from gradaudit.evidence import ApproximateEvidence, Certificate, Status
from gradaudit.linear.approximate import Approximation
from gradaudit.linear.disaggregate import Batch
from gradaudit.linear.invert import NOTHING_LEFT, Inversion
from gradaudit.linear.problem import Problem
from gradaudit.outcome.outcome import Outcome
from gradaudit.theory import expected_submatrices

# From so many times the submatrices that theory expects on, more of them are of no use.
IN_VAIN = 100.0
_MEANS = {
    "halfspace": "the half-space search, which uses the weights too",
    "peeling": "peeling from neurons that a single record fires",
    "spear": "SPEAR's submatrix sampling",
    "spear++": "SPEAR++'s descent towards sparse directions",
}


def describe(
    problem: Problem,
    role: str,
    inversion: Inversion,
    verdict: Verdict | None,
    proposers: tuple[str, ...],
    *,
    approximation: Approximation | None = None,
) -> Outcome:
    """Turn a search and the verdict on it into a status with cause and remedy.

    Args:
        problem: The layer.
        role: Its role.
        inversion: What the search returned.
        verdict: What certification said of its batch, or of the records it has without one; None
            if it has none.
        proposers: Whose directions the search pooled.
        approximation: Estimates of records that are not certified.
    """
    size = problem.batch_size
    recovered = verdict.recovered if verdict else 0
    status, cause, remedy = _status(problem, role, inversion, verdict, recovered)
    batch, verdict = _shown(inversion, verdict)
    known = _evidence(approximation)
    if known:
        cause = f"{cause} {_known(known, recovered)}"
    single = size == 1
    return Outcome(
        status=status,
        cause=cause,
        remedy=remedy,
        layer=problem.layer.name,
        role=role,
        batch_size=size,
        spectrum=problem.factors.spectrum,
        records=batch.records.cpu() if batch else None,
        gradients=verdict.gradients.cpu() if verdict and verdict.gradients is not None else None,
        scale_identified=batch.scale_identified if batch else True,
        evidence=verdict.evidence if verdict else (),
        certificate=verdict.certificate if verdict else Certificate(),
        attack="closed_form" if single else "+".join(proposers),
        attack_reason=(
            "One record: every row of the weight gradient is a multiple of it."
            if single
            else f"{size} records: {_reason(proposers)}"
        ),
        setting="" if single else problem.setting.value,
        notes=verdict.notes if verdict else (),
        approximate_records=approximation.records.cpu() if approximation and known else None,
        approximate_evidence=known,
        counters={**inversion.counters, **_not_estimated(approximation)},
        seconds=inversion.seconds,
    )


def _shown(inversion: Inversion, verdict: Verdict | None) -> tuple[Batch | None, Verdict | None]:
    """The reconstruction; of a part of one, what is certified."""
    part = inversion.partial
    if inversion.batch is not None or part is None or verdict is None:
        return inversion.batch, verdict
    kept = [j for j, record in enumerate(verdict.evidence) if record.recovered]
    if not kept:
        return None, replace(verdict, evidence=(), gradients=None)
    gradients = part.activation_gradients[:, kept]
    return (
        replace(
            part,
            records=part.records[kept],
            activation_gradients=gradients,
            directions=part.directions[kept],
        ),
        replace(verdict, evidence=tuple(verdict.evidence[j] for j in kept), gradients=gradients),
    )


def _evidence(approximation: Approximation | None) -> tuple[ApproximateEvidence, ...]:
    if approximation is None:
        return ()
    sizes = approximation.records.square().mean(1).sqrt()
    errors = approximation.estimated_error
    pairs = zip(errors.tolist(), (errors / sizes).tolist(), strict=True)
    return tuple(ApproximateEvidence(error, relative) for error, relative in pairs)


def _not_estimated(approximation: Approximation | None) -> dict[str, float]:
    """Of how many records found there is not even an estimate, by the reason."""
    skipped = approximation.skipped if approximation else {}
    return {f"not estimated, as {why}": float(count) for why, count in skipped.items()}


def _known(evidence: tuple[ApproximateEvidence, ...], recovered: int) -> str:
    count = len(evidence)
    largest = max(record.relative_error or 0.0 for record in evidence)
    others = f"{count} more" if recovered else f"No record is proven; {count}"
    are, their = ("is", "its") if count == 1 else ("are", "their")
    return f"{others} {are} known approximately, to within {largest:.0%} of {their} size."


def _reason(proposers: tuple[str, ...]) -> str:
    """Which searches worked, and why several."""
    *others, last = [_MEANS[name] for name in proposers]
    if not others:
        return f"{last}."
    return f"{', '.join(others)} and {last} share the work, since each finds what others miss."


def _status(
    problem: Problem, role: str, inversion: Inversion, verdict: Verdict | None, recovered: int
) -> tuple[Status, str, str]:
    size = problem.batch_size
    what = "record" if role == "input" else "input"
    if size != 1:
        what += "s"
    solved = "it was" if size == 1 else "every one was"
    if recovered and recovered == size:
        exact = "" if verdict is None or not verdict.evidence else _accuracy(verdict)
        scale = (
            ""
            if inversion.batch is None or inversion.batch.scale_identified
            else " The layer has no bias gradient: each is right up to a positive factor."
        )
        return (
            Status.RECOVERED,
            f"The {_observed(problem)} of layer {problem.layer.name!r} holds {size} distinct "
            f"{what}, and {solved} solved for{exact}.{scale}{_merged(verdict)}",
            "Do not let a single client's update of such a batch be seen: use secure aggregation "
            "or differential privacy with noise above the gradient's size; a larger batch only "
            "raises the cost.",
        )
    if recovered:
        return (
            Status.PARTIAL,
            f"Proven: {recovered} of {size} {what} of layer {problem.layer.name!r}; "
            f"{_why_not_more(problem, inversion)}{_merged(verdict)}",
            f"Treat the update as leaked. {_of_the_rest(problem, inversion)}",
        )
    if _cut_short(inversion):
        return (
            Status.BUDGET_EXHAUSTED,
            f"The search ended early: {_why_not_more(problem, inversion)}",
            _more_time(problem, inversion),
        )
    if inversion.batch is None:
        return (
            Status.NOT_RECOVERED,
            f"The attack did not find the batch: {_why_not_more(problem, inversion)}",
            "The attack 'auto' has more to try than any other. This does not show that other "
            "attacks fail.",
        )
    reasons = [record.reason for record in verdict.evidence if record.reason] if verdict else []
    return (
        Status.NOT_RECOVERED,
        "A reconstruction was found, but it is not proven: "
        + (reasons[0] if reasons else "the directions found do not make a batch."),
        f"{_unproven(problem)} This does not show that other attacks fail.",
    )


def _observed(problem: Problem) -> str:
    return "change" if problem.layer.several_steps else "gradient"


def _unproven(problem: Problem) -> str:
    """What may have kept a reconstruction from being proven, and what would help."""
    if problem.layer.several_steps:
        return (
            "Training may have moved too many neurons across their boundary, the layer may not be "
            "followed by a ReLU, or records may be too alike; audit a round of fewer steps or a "
            "smaller rate."
        )
    return (
        "The layer may not be followed by a ReLU, or records may be too alike; give the model, or "
        "audit another layer."
    )


def _cut_short(inversion: Inversion) -> bool:
    return inversion.stopped not in ("", NOTHING_LEFT)


def _of_the_rest(problem: Problem, inversion: Inversion) -> str:
    """Whether more time may recover what is missing of a part."""
    if _in_vain(problem, inversion):
        return f"{_absent(problem, inversion)} Another attack may recover the rest."
    if _cut_short(inversion):
        return "A larger budget may recover the rest."
    if inversion.batch is None:
        return "The search had nothing left to try, but another attack may recover the rest."
    return "The rest was reconstructed too, but is not proven, which more time would not change."


def _merged(verdict: Verdict | None) -> str:
    """What records that occur several times may stand for."""
    evidence = verdict.evidence if verdict else ()
    several = sum((record.copies or 1) > 1 for record in evidence)
    if not several:
        return ""
    return (
        f" {several} of them occurred more than once: identical records, or the mean of records "
        "that the network cannot tell apart; how far those differ no predicted error includes."
    )


def _accuracy(verdict: Verdict) -> str:
    errors = [r.estimated_error for r in verdict.evidence if r.estimated_error is not None]
    return f", to within a predicted error of {max(errors):.1g} per entry" if errors else ""


def _why_not_more(problem: Problem, inversion: Inversion) -> str:
    found = min(inversion.directions_found, problem.batch_size)
    stopped = inversion.stopped or "the search was complete"
    return f"{stopped}, with {found} of {problem.batch_size} directions found."


def _more_time(problem: Problem, inversion: Inversion) -> str:
    if _in_vain(problem, inversion):
        return (
            f"{_absent(problem, inversion)} Audit another layer, or the update before anything was "
            "done to it. This does not show that other attacks fail."
        )
    said = ""
    if "submatrices" in inversion.counters:
        said = (
            f" (sampling alone is expected to need {expected_submatrices(problem.batch_size):.1e} "
            f"submatrices or more for {problem.batch_size} records, and tried "
            f"{inversion.counters['submatrices']:.1e})"
        )
    return (
        f"Allow a larger budget{said}. An unfinished search does not show that the update "
        "withstands it."
    )


def _in_vain(problem: Problem, inversion: Inversion) -> bool:
    """Whether sampling has tried so much that the zeros it looks for cannot be there."""
    tried = inversion.counters.get("submatrices", 0.0)
    wanted = expected_submatrices(problem.batch_size)
    return inversion.batch is None and tried >= IN_VAIN * wanted


def _absent(problem: Problem, inversion: Inversion) -> str:
    size = problem.batch_size
    tried, wanted = inversion.counters["submatrices"], expected_submatrices(size)
    return (
        f"A larger budget is of little use: for {size} records sampling is expected to need "
        f"{wanted:,.0f} submatrices, and {tried / wanted:,.0f} times as many were "
        "tried. The zeros that a ReLU gives half of all entries are not there: the layer has "
        "another activation, or entries were altered, and the rank need not be the batch size."
    )
