"""What R-GAP came to, in the words of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradaudit.certify.reconstruction import ReconstructionVerdict
from gradaudit.chain import Affine
from gradaudit.evidence import ApproximateEvidence, Certificate, Status
from gradaudit.outcome.outcome import Outcome
from gradaudit.outcome.recursion import counters, layer_reports
from gradaudit.rgap import Candidate

ATTACK = "rgap"
REASON = "One record and a network that can be computed backwards, layer by layer."
SETTING = "the update is the gradient of a single record, and the network is the one given"
PROTECT = (
    "Do not let a single client's update of one record be seen: use secure aggregation or "
    "differential privacy with noise above the gradient's size."
)
NO_PROOF = "This does not show that other attacks fail."
# Cosine from which two candidates are multiples of each other.
SAME_DIRECTION = 0.999
# Part of a layer's gradient beyond which its equations contradict each other: of one record's
# gradient they leave rounding, and of several records' most of it.
CONTRADICTION = 1e-2


@dataclass(frozen=True, eq=False)
class Judged:
    """A candidate of the recursion and what certification says; None where it was not asked."""

    candidate: Candidate
    verdict: ReconstructionVerdict | None

    @property
    def recovered(self) -> bool:
        """Whether it is certified."""
        return self.verdict is not None and self.verdict.recovered


def describe_rgap(
    judged: Sequence[Judged],
    *,
    layers: Sequence[Affine],
    excluded: int,
    loss_given: bool,
    stopped: str | None,
    seconds: dict[str, float],
) -> Outcome:
    """Turn candidates and their verdicts into a status with cause and remedy.

    Args:
        judged: Those that can be inputs.
        layers: Of the network, the first one first.
        excluded: How many were left out, since their values lie outside the inputs' range.
        loss_given: Whether the caller named the loss.
        stopped: Why the time was up, if it was.
        seconds: By phase.
    """
    blank = Outcome(
        Status.NOT_RECOVERED,
        "",
        "",
        layer=layers[0].name,
        role="input",
        batch_size=1,
        attack=ATTACK,
        attack_reason=REASON,
        setting=SETTING,
        counters=counters([each.candidate for each in judged]),
        seconds=seconds,
    )
    outcome = _outcome(blank, judged, excluded, loss_given=loss_given, stopped=stopped)
    return replace(
        outcome, layers=layer_reports([each.candidate for each in judged], layers, outcome.status)
    )


def _outcome(
    blank: Outcome,
    judged: Sequence[Judged],
    excluded: int,
    *,
    loss_given: bool,
    stopped: str | None,
) -> Outcome:
    proven = [each for each in judged if each.recovered]
    if not proven:
        return _not_recovered(blank, judged, stopped)
    by_loss = any(each.verdict is not None and each.verdict.size_by_loss for each in proven)
    if by_loss and not loss_given and _are_multiples(proven):
        return _up_to_scale(
            blank,
            proven,
            "under another loss than the usual one, other multiples have the observed gradient. "
            "Name the loss, and the size is known too",
        )
    if len(proven) == 1:
        return _recovered(blank, proven[0], excluded)
    if _are_multiples(proven):
        sizes = " and ".join(f"{float(e.candidate.inputs.norm()):.4g}" for e in proven)
        return _up_to_scale(
            blank,
            proven,
            f"scaled to the norms {sizes} it has the observed gradient, both times, since the "
            "network has no biases and a single logit. Both are among the estimates",
        )
    return replace(
        blank,
        cause=f"{len(proven)} different inputs have the observed gradient in every tensor, and "
        "nothing tells which of them was the record.",
        remedy=f"Treat the update as leaked to anybody who knows more. {NO_PROOF}",
        **_approximate(proven),
    )


def _recovered(blank: Outcome, one: Judged, excluded: int) -> Outcome:
    assert one.verdict is not None  # noqa: S101 - it is certified
    twin, named = one.verdict.twin, ""
    if twin is not None and excluded:
        named = (
            f" So has {twin.factor:.4g} times the record, but that lies outside the range of "
            "inputs."
        )
    if one.verdict.size_by_loss:
        named += (
            " Its size rests on the loss, and on the gradient being neither clipped nor a mean "
            "with records that have none: nothing in this network's gradient tests that."
        )
    if one.verdict.factor != 1.0:
        named += (
            f" Its own gradient was multiplied by {one.verdict.factor:.4g}: by a learning rate, or "
            "where it was clipped."
        )
    error = one.verdict.evidence[0].estimated_error or 0.0
    return replace(
        blank,
        status=Status.RECOVERED,
        cause="The layers' equations, solved one after the other, give a single record, to within "
        f"a predicted error of {error:.1g} per entry, and it has the observed gradient.{named}",
        remedy=PROTECT,
        records=one.candidate.inputs.reshape(1, -1).cpu(),
        evidence=one.verdict.evidence,
        certificate=one.verdict.certificate,
    )


def _up_to_scale(blank: Outcome, multiples: list[Judged], why: str) -> Outcome:
    """A direction that is certain, with the multiples of it that have the gradient."""
    first = multiples[0]
    assert first.verdict is not None  # noqa: S101 - it is certified
    record = first.candidate.inputs.flatten()
    size = float(record.norm())
    evidence = tuple(
        replace(each, estimated_error=(each.estimated_error or 0.0) / size)
        for each in first.verdict.evidence
    )
    return replace(
        blank,
        status=Status.RECOVERED,
        cause="The layers' equations, solved one after the other, give the record up to a "
        f"positive factor: {why}.",
        remedy=PROTECT,
        records=(record / size)[None].cpu(),
        scale_identified=False,
        evidence=evidence,
        certificate=first.verdict.certificate,
        **_approximate(multiples),
    )


def _not_recovered(blank: Outcome, judged: Sequence[Judged], stopped: str | None) -> Outcome:
    if stopped is not None:
        return replace(
            blank,
            status=Status.BUDGET_EXHAUSTED,
            cause=f"The recursion ended early: {stopped}.",
            remedy="Allow more time.",
        )
    if not judged:
        return replace(
            blank,
            cause="No input of the network explains its gradient under this loss.",
            remedy="Name the loss that the client trains with; several records, or noise, make "
            f"such a gradient too. {NO_PROOF}",
        )
    best = min(judged, key=lambda each: each.candidate.residual)
    certificate = Certificate() if best.verdict is None else best.verdict.certificate
    cause, remedy = _why(best)
    estimates = [each for each in judged if each.candidate.residual < CONTRADICTION]
    shown = _approximate(estimates) if estimates else {}
    return replace(
        blank,
        cause=cause,
        remedy=f"{remedy} {NO_PROOF}",
        certificate=certificate,
        **shown,
    )


def _why(best: Judged) -> tuple[str, str]:
    """Cause and remedy where the best candidate is not certified."""
    candidate = best.candidate
    if candidate.deficits:
        name, deficit = next(iter(candidate.deficits.items()))
        unknowns = next(layer.unknowns for layer in candidate.layers if layer.layer == name)
        return (
            f"The equations of layer {name!r} leave {deficit:,} of its {unknowns:,} inputs open, "
            "so that what the recursion gives is one of many solutions.",
            "Gradient matching uses the equations of all layers together: try the attack "
            "'inverting-gradients'.",
        )
    if candidate.residual > CONTRADICTION:
        return (
            "The layers' equations contradict each other: at least "
            f"{candidate.residual:.0%} of a layer's gradient is not that of any single record "
            "under this network and loss.",
            "Several records, noise, or another network or loss make such a gradient; the attack "
            "'auto' takes batches.",
        )
    reason = "" if best.verdict is None else best.verdict.reason
    return (
        f"A reconstruction was found, but it is not proven: {reason or 'its class is not known.'}",
        "Check the network, its mode and the loss. If the gradient was clipped, the attack needs "
        "biases, cross-entropy and three classes.",
    )


def _approximate(judged: Sequence[Judged]) -> dict[str, Any]:
    """Candidates as estimates, with what is known of their errors."""
    evidence = []
    for each in judged:
        found = None if each.verdict is None else each.verdict.sensitivity
        size = float(each.candidate.inputs.square().mean().sqrt())
        evidence.append(
            ApproximateEvidence(
                estimated_error=None if found is None else found.error,
                relative_error=None if found is None or not size else found.error / size,
                residual=each.candidate.residual if each.verdict is None else each.verdict.residual,
            )
        )
    records = torch.stack([each.candidate.inputs.flatten() for each in judged]).cpu()
    return {"approximate_records": records, "approximate_evidence": tuple(evidence)}


def _are_multiples(judged: Sequence[Judged]) -> bool:
    first = judged[0].candidate.inputs.flatten()
    return all(
        float(torch.nn.functional.cosine_similarity(first, other.candidate.inputs.flatten(), 0))
        > SAME_DIRECTION
        for other in judged[1:]
    )
