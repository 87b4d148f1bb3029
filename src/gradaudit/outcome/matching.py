"""What gradient matching came to, in the words of a result."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from gradaudit.certify.reconstruction import ReconstructionVerdict
from gradaudit.evidence import ApproximateEvidence, Certificate, Status
from gradaudit.gradient_matching import Match
from gradaudit.outcome.outcome import Outcome

_MEANS = {
    "dlg": "Deep Leakage from Gradients: records and labels are searched for together",
    "idlg": "iDLG: the label is read off the last layer's gradient, the record searched for",
    "inverting-gradients": "Inverting Gradients: the angle between gradients, and smooth images",
}
PROTECT = (
    "Do not let a single client's update of such a batch be seen: use secure aggregation or "
    "differential privacy with noise above the gradient's size."
)
NO_PROOF = "This does not show that other attacks fail."


@dataclass(frozen=True)
class BatchSize:
    """How many records were searched for.

    Attributes:
        records: The number.
        how: How it is known, in words.
    """

    records: int
    how: str


def describe_match(
    match: Match,
    verdict: ReconstructionVerdict | None,
    attack: str,
    size: BatchSize,
    notes: tuple[str, ...],
    *,
    loss_given: bool,
) -> Outcome:
    """Turn a match and the verdict on it into a status with cause and remedy.

    Args:
        match: The best candidate.
        verdict: What certification says; None where it was not asked.
        attack: The method's name.
        size: The batch size.
        notes: Remarks for the list of assumptions.
        loss_given: Whether the caller named the loss.
    """
    records = match.records.flatten(1).cpu()
    blank = Outcome(
        Status.NOT_RECOVERED,
        "",
        "",
        role="input",
        batch_size=size.records,
        attack=attack,
        attack_reason=f"{_MEANS.get(attack, attack)}.",
        setting=f"a batch of {size.records}, {size.how}; labels {match.labels_from}",
        notes=notes,
        counters={**match.counters, "relative residual": match.residual},
        seconds=match.seconds,
    )
    if verdict is not None and verdict.recovered:
        if verdict.twin is not None or (verdict.size_by_loss and not loss_given):
            return _up_to_scale(blank, records, verdict)
        error = max(record.estimated_error or 0.0 for record in verdict.evidence)
        return replace(
            blank,
            status=Status.RECOVERED,
            cause="The batch found has the observed gradient in every tensor, and is known to "
            f"within a predicted error of {error:.1g} per entry.",
            remedy=PROTECT,
            records=records,
            evidence=verdict.evidence,
            certificate=verdict.certificate,
        )
    why = "its labels are no classes." if verdict is None else verdict.reason
    left = f"The best candidate leaves {match.residual:.2g} of the gradient unexplained"
    estimated = replace(
        blank,
        certificate=Certificate() if verdict is None else verdict.certificate,
        approximate_records=records,
        approximate_evidence=(_estimate(match, verdict),) * len(records),
    )
    if match.stopped:
        return replace(
            estimated,
            status=Status.BUDGET_EXHAUSTED,
            cause=f"The search ended early: {match.stopped}. {left}.",
            remedy=f"Allow a larger budget. {NO_PROOF}",
        )
    found = None if verdict is None else verdict.sensitivity
    remedy = "More restarts or iterations may find a better one; fully connected layers are solved "
    remedy += "exactly by the attack 'auto'."
    if found is not None and found.determined is None:
        remedy = (
            "Allow a larger budget: to find out whether a match is the only one takes a minute "
        )
        remedy += "or more, and is possible for a few thousand input values."
    return replace(
        estimated,
        cause=f"{left}, and is not proven: {why}",
        remedy=f"{remedy} {NO_PROOF}",
    )


def _up_to_scale(blank: Outcome, records: Tensor, verdict: ReconstructionVerdict) -> Outcome:
    """Directions that are certain, where other multiples have the observed gradient too."""
    twin = verdict.twin
    if twin is not None:
        why = f"{twin.factor:.4g} times what was found has it too"
    else:
        why = "under another loss than the usual one, other multiples have it; name the loss"
    sizes = records.norm(dim=1, keepdim=True)
    evidence = tuple(
        replace(each, estimated_error=(each.estimated_error or 0.0) / float(size))
        for each, size in zip(verdict.evidence, sizes, strict=True)
    )
    return replace(
        blank,
        status=Status.RECOVERED,
        cause="The batch found has the observed gradient in every tensor, and is known up to a "
        f"positive factor: {why}.",
        remedy=PROTECT,
        records=records / sizes,
        scale_identified=False,
        evidence=evidence,
        certificate=verdict.certificate,
    )


def _estimate(match: Match, verdict: ReconstructionVerdict | None) -> ApproximateEvidence:
    """What is known of every record alike; an error only where the gradient is matched."""
    found = None if verdict is None else verdict.sensitivity
    size = float(match.records.square().mean().sqrt())
    known = found is not None and bool(found.determined) and size > 0
    return ApproximateEvidence(
        found.error if found is not None and known else None,
        found.error / size if found is not None and known else None,
        residual=match.residual,
    )
