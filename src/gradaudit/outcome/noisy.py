"""What a search under noise came to, in the words of a result."""

from __future__ import annotations

from dataclasses import replace

from gradaudit.certify import Verdict
from gradaudit.evidence import Certificate, RecordEvidence, Status
from gradaudit.linear.factor import Factors
from gradaudit.linear.problem import Problem
from gradaudit.noisy import Recovery
from gradaudit.outcome.outcome import Outcome
from gradaudit.update import LinearLayer

ATTACK = "halfspace-noisy"
_OTHERS = "This does not show that other attacks, or one that knows more of the data, fail."


def describe_under_noise(
    problem: Problem, role: str, recovery: Recovery, verdict: Verdict | None
) -> Outcome:
    """Turn a search under noise and the verdict on it into a status with cause and remedy.

    Args:
        problem: The layer, at the rank that stands above the noise.
        role: Its role.
        recovery: What the search returned.
        verdict: What certification said of it; None without a reconstruction.
    """
    size = problem.batch_size
    evidence = verdict.evidence if verdict else ()
    kept = [j for j, record in enumerate(evidence) if record.recovered]
    status, cause, remedy = _status(problem, role, recovery, evidence)
    batch = recovery.batch
    shown = batch is not None and bool(kept)
    return Outcome(
        status=status,
        cause=cause,
        remedy=remedy,
        layer=problem.layer.name,
        role=role,
        batch_size=size,
        above_noise=size,
        spectrum=problem.factors.spectrum,
        records=batch.records[kept].cpu() if batch is not None and shown else None,
        gradients=(
            verdict.gradients[:, kept].cpu()
            if verdict and verdict.gradients is not None and shown
            else None
        ),
        evidence=tuple(evidence[j] for j in kept),
        certificate=verdict.certificate if verdict else Certificate(),
        attack=ATTACK,
        attack_reason=(
            f"{size} records stand above the noise: the half-space search on what is left of "
            "them, and a fit of all together."
        ),
        setting=problem.setting.value,
        notes=verdict.notes if verdict else (),
        counters=recovery.counters,
        seconds=recovery.seconds,
    )


def hidden_by_noise(layer: LinearLayer, role: str, factors: Factors) -> Outcome:
    """Say that the spectrum tells no batch from the noise.

    Args:
        layer: As observed.
        role: Its role.
        factors: At the rank that stands above the noise.
    """
    rank, level = factors.rank, factors.spectrum.noise_level
    cause = (
        f"No singular value of layer {layer.name!r} stands above its noise, of standard deviation "
        f"{level:.2g} an entry: the spectrum does not show that there are records."
        if rank == 0
        else f"{rank} singular values of layer {layer.name!r} stand above its noise, of standard "
        f"deviation {level:.2g} an entry: too many for the layer's width."
    )
    return Outcome(
        status=Status.NOT_APPLICABLE,
        cause=cause,
        remedy="Audit a wider layer, a smaller batch, or the sum of several updates of one batch. "
        + _OTHERS,
        layer=layer.name,
        role=role,
        batch_size=None,
        spectrum=factors.spectrum,
    )


def without_hidden_records(outcome: Outcome, shown: int) -> Outcome:
    """Take back records of a layer in which the noise hides some that another layer shows.

    What the hidden ones add stands above the noise with the others and is mixed into them; no
    estimate of their errors knows of it.

    Args:
        outcome: Of the layer.
        shown: Records that the other layer shows, at least.
    """
    size = outcome.batch_size
    if not outcome.status.leak_proven or size is None or size >= shown:
        return outcome
    return replace(
        outcome,
        status=Status.NOT_RECOVERED,
        cause=f"{size} inputs of layer {outcome.layer!r} stand above noise, but another layer "
        f"shows {shown} records: the others are mixed into what was found, and nothing can be "
        "certified.",
        remedy=_OTHERS,
        records=None,
        gradients=None,
        evidence=(),
        certificate=Certificate(),
    )


def _status(
    problem: Problem,
    role: str,
    recovery: Recovery,
    evidence: tuple[RecordEvidence, ...],
) -> tuple[Status, str, str]:
    size, name = problem.batch_size, problem.layer.name
    level = problem.factors.spectrum.noise_level
    what = "record" if role == "input" else "input"
    what += "" if size == 1 else "s"
    certified = [record for record in evidence if record.recovered]
    errors = [record.estimated_error for record in certified if record.estimated_error is not None]
    stand = "stands" if size == 1 else "stand"
    above = f"{size} {what} of layer {name!r} {stand} above noise of standard deviation {level:.2g}"
    if certified:
        low, high = f"{min(errors):.2g}", f"{max(errors):.2g}"
        span = low if low == high else f"{low} to {high}"
        within = f"to within an estimated error of {span} per entry"
        more_noise = (
            "Noise of this strength does not protect such a batch. Raise it until the audit "
            "recovers nothing, and then still assume that a better attack exists; or use secure "
            "aggregation."
        )
        if len(certified) == size:
            solved = "it was" if size == 1 else "every one was"
            return Status.RECOVERED, f"{above}, and {solved} recovered {within}.", more_noise
        return (
            Status.PARTIAL,
            f"{above}; {len(certified)} of them were recovered {within}. "
            f"{_why(recovery, evidence, size)}",
            more_noise,
        )
    if recovery.stopped and recovery.directions_found < size and _out_of_time(recovery):
        return (
            Status.BUDGET_EXHAUSTED,
            f"The search ended early: {above}, and {_why(recovery, evidence, size)}",
            "Allow a larger budget. An unfinished search does not show that the update withstands "
            "it.",
        )
    return (
        Status.NOT_RECOVERED,
        f"{above}, but {'it was not' if size == 1 else 'none was'} recovered. "
        f"{_why(recovery, evidence, size)}",
        _OTHERS,
    )


def _out_of_time(recovery: Recovery) -> bool:
    return recovery.stopped not in (
        "no further direction stands out",
        "the directions found do not make a batch",
    )


def _why(recovery: Recovery, evidence: tuple[RecordEvidence, ...], size: int) -> str:
    """What keeps the others from being certified."""
    found = recovery.directions_found
    reasons = [record.reason for record in evidence if record.reason]
    text = f"{found} of {size} directions look like a record's"
    if recovery.stopped:
        text += f" ({recovery.stopped})"
    return f"{text}." if not reasons else f"{text}. One was not certified, since {reasons[0]}."
