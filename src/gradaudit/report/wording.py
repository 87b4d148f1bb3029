"""What a result means, in the words of somebody who answers for personal data."""

from __future__ import annotations

from dataclasses import dataclass

from gradaudit.evidence import ApproximateEvidence, Status
from gradaudit.report.text import count, number, plain
from gradaudit.result import AuditResult


@dataclass(frozen=True)
class Verdict:
    """The top of a report.

    Attributes:
        tag: Two or three words.
        tone: ``"leak"``, ``"partial"`` or ``"open"``; never anything reassuring.
        sentence: The verdict, for a person who knows no mathematics.
        consequence: What follows from it for the data.
    """

    tag: str
    tone: str
    sentence: str
    consequence: str


_EXACT = (
    "Whoever receives this update, such as the server of the federation, can compute {these} "
    "without any help of the client. Treat the update like the data itself."
)
_WITHIN = (
    "Noise keeps them from being exact: each is known to within the estimated error stated with "
    "it, and records with a weaker signal may be hidden."
)
_UP_TO_FACTOR = (
    "Each is known up to one positive factor, since the layer has no bias gradient: for an "
    "image, everything but the overall contrast."
)


def verdict(result: AuditResult) -> Verdict:
    """Say what was established, and what was not.

    Example:
        >>> verdict(AuditResult(Status.NOT_APPLICABLE, "", "")).tag
        'Nothing was tested'
    """
    return _VERDICTS[result.status](result)


def _recovered(result: AuditResult) -> Verdict:
    certified = result.records_recovered
    if certified == 1 and result.batch_size in (None, 1):
        subject, these = "the only distinct record", "this record"
    else:
        subject, these = f"all {certified:,} distinct records", "these records"
    if _within_noise(result):
        subject = count(certified, "record")
    return Verdict(
        "Proven leak",
        "leak",
        f"This update reveals {subject} of the client’s batch.",  # noqa: RUF001
        _consequence(result, these),
    )


def _partial(result: AuditResult) -> Verdict:
    certified = result.records_recovered
    hidden = result.batch_size is None or _within_noise(result)
    of_all = "" if hidden else f" of the {result.batch_size:,} distinct"
    these = "this record" if certified == 1 else "these records"
    noun = "record" if certified == 1 and not of_all else "records"
    return Verdict(
        "Proven leak, in part",
        "partial",
        f"This update reveals {certified:,}{of_all} {noun} of the client’s batch.",  # noqa: RUF001
        f"{_consequence(result, these)} That the others were not recovered does not mean that they "
        "are protected.",
    )


def _consequence(result: AuditResult, these: str) -> str:
    text = _EXACT.format(these=these)
    if _within_noise(result):
        text = f"{text} {_WITHIN}"
    return text if result.scale_identified else f"{text} {_UP_TO_FACTOR}"


def _within_noise(result: AuditResult) -> bool:
    return result.certificate.kind == "within_noise"


def _not_recovered(result: AuditResult) -> Verdict:
    return Verdict(
        "Nothing recovered",
        "open",
        "The attack was carried out and did not recover any record from this update.",
        "This says something about this attack on this update only. Another attack or better prior "
        "knowledge may recover what this one did not.",
    )


def _exhausted(result: AuditResult) -> Verdict:
    return Verdict(
        "Not decided",
        "open",
        "The search reached its limit before it was complete; nothing was proven either way.",
        "An attacker is not bound by that limit. Until a longer search has ended, assume that the "
        "update can reveal its records.",
    )


def _not_applicable(result: AuditResult) -> Verdict:
    return Verdict(
        "Nothing was tested",
        "open",
        "The attack could not be carried out on this update, so that nothing was tested.",
        "This report neither shows nor excludes a leak.",
    )


_VERDICTS = {
    Status.RECOVERED: _recovered,
    Status.PARTIAL: _partial,
    Status.NOT_RECOVERED: _not_recovered,
    Status.BUDGET_EXHAUSTED: _exhausted,
    Status.NOT_APPLICABLE: _not_applicable,
}

OUTCOMES = {
    Status.RECOVERED: "all records recovered",
    Status.PARTIAL: "some records recovered",
    Status.NOT_RECOVERED: "nothing recovered",
    Status.BUDGET_EXHAUSTED: "search not complete",
    Status.NOT_APPLICABLE: "attack not applicable",
}

ROLES = {
    "input": "first layer: its inputs are the records themselves",
    "interior": "inner layer: its inputs are features of the records",
    "output": "last layer: its inputs are features, its gradient shows the classes",
}

KINDS = {
    "full_gradient": "The gradient of the whole network, recomputed from the recovered records",
    "activation_gradient": "Each record’s own share of the gradient, recomputed by the network",  # noqa: RUF001
    "explained_rows": "Rows of the gradient that determine these records, and their own shares",
    "within_noise": "All of the layer’s gradient but its noise, and the neurons each record fires",  # noqa: RUF001
    "layer": "The layer’s gradient, bias gradient and activations, explained without remainder",  # noqa: RUF001
}


def limits(result: AuditResult) -> list[str]:
    """How to read the report, and what it cannot say."""
    texts = [
        "The report is about one update. Other rounds, other clients and other settings of the "
        "training can behave differently.",
        "A failed attack is no proof that the data are protected. Attacks get better, and an "
        "attacker may know more than was assumed here.",
    ]
    if result.status.leak_proven:
        texts.insert(
            0,
            "“Certified” means that the record was checked against the update itself: the "
            "recovered records explain what the client sent, to within the tolerances listed. "
            "No original data is needed for this, and none was used.",
        )
    if result.records is not None:
        texts.append(
            "The order of the records in the batch leaves no trace in an update. The numbers in "
            "this report only tell records apart."
        )
    if any(record.copies is None for record in result.evidence):
        texts.append(
            "The batch size counts distinct records. Where the number of copies is not stated, "
            "a record may occur more than once."
        )
    if not result.scale_identified:
        texts.append(_UP_TO_FACTOR)
    if result.spectrum is not None and not result.spectrum.has_gap:
        texts.append(
            "The singular values show no clear gap, so that the batch size is not certain: "
            f"{count(result.spectrum.numerical_rank, 'value')} above the threshold."
        )
    return texts


def known_how_well(item: ApproximateEvidence) -> str:
    """Say how well a record is known that is not recovered.

    Example:
        >>> known_how_well(ApproximateEvidence(0.1, 0.05))
        'known approximately, to within 5% of its size'
        >>> known_how_well(ApproximateEvidence(None, None, residual=0.02))
        'an estimate of unknown error; 0.02 of what it was made to match is left unexplained'
    """
    if item.relative_error is not None:
        return f"known approximately, to within {item.relative_error:.0%} of its size"
    text = "an estimate of unknown error"
    if item.residual is not None:
        text += f"; {number(item.residual)} of what it was made to match is left unexplained"
    if item.stable is not None:
        text += "; a second search " + ("agrees" if item.stable else "does not agree")
    return text


def layer_of(result: AuditResult) -> str:
    """Name the layer that a result is from.

    Example:
        >>> layer_of(AuditResult(Status.NOT_APPLICABLE, "", ""))
        'none'
    """
    if result.layer is not None:
        return plain(result.layer or "(unnamed)", 80)
    return "none" if result.search.attack == "none" else "all together"
