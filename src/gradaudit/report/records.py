"""The recovered records of a result as cards of a report, redacted unless asked otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.evidence import RecordEvidence
from gradaudit.report.contents import Batch, CardImage, Row, content_of
from gradaudit.report.images import fingerprint
from gradaudit.report.originals import match_originals
from gradaudit.report.text import plain
from gradaudit.report.wording import known_how_well
from gradaudit.result import AuditResult
from gradaudit.truth import Truth

MAX_CARDS = 60


@dataclass(frozen=True)
class Card:
    """One record as a report shows it."""

    number: int
    certified: bool
    approximate: bool
    reason: str
    facts: tuple[tuple[str, str], ...]
    images: tuple[CardImage, ...] = ()
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordsView:
    """All that the section on recovered records shows.

    Attributes:
        kind: ``"images"``, ``"rows"`` of a table or plain ``"vectors"``.
        redacted: Whether the records' content is withheld.
        certified: Cards of certified records.
        approximate: Cards of records that are known approximately.
        uncertified: Cards of the others.
        total: Records there are, shown or not.
        columns: Names of the columns or a description of the content.
        notes: What must be said about all of them.
        has_originals: Whether originals stand beside the records.
        has_fingerprints: Whether the cards have fingerprints.
        keyed: Whether these are keyed with a secret.
    """

    kind: str
    redacted: bool
    certified: tuple[Card, ...]
    approximate: tuple[Card, ...]
    uncertified: tuple[Card, ...]
    total: int
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    has_originals: bool = False
    has_fingerprints: bool = False
    keyed: bool = False

    @property
    def shown(self) -> int:
        """Cards there are."""
        return len(self.certified) + len(self.approximate) + len(self.uncertified)


def view_records(
    result: AuditResult, *, truth: Truth | None, show_records: bool, salt: str | None
) -> RecordsView | None:
    """Prepare the cards: certified records first, at most `MAX_CARDS` of them.

    Records that are known approximately are numbered after those of the reconstruction.

    Args:
        result: The result; one without records has no cards.
        truth: Originals to put beside the records.
        show_records: False withholds the content of records and originals, and their labels.
        salt: Key of the fingerprints; see `gradaudit.report.render_html`.

    Returns:
        The view, or None without records.

    Raises:
        InputError: The truth is not of this result.
        MissingExtraError: pillow is needed and not installed.

    Example:
        >>> from gradaudit.evidence import Status
        >>> result = AuditResult(Status.NOT_APPLICABLE, "No linear layer.", "None.")
        >>> view_records(result, truth=None, show_records=False, salt=None) is None
        True
    """
    found, evidence = _everything(result)
    if found is None:
        return None
    records = found.detach().cpu().double().numpy()
    preprocessing = result.preprocessing or (truth.preprocessing if truth else None)
    originals = None
    if truth is not None:
        originals = match_originals(
            found, truth, preprocessing, up_to_scale=not result.scale_identified
        )
    batch = Batch(records, originals, result.scale_identified, show_records)
    content = content_of(batch, preprocessing)
    if content.keyable(salt):
        key = f"gradaudit.report:{result.update_sha256 if salt is None else salt}"
        content.mark = lambda index: fingerprint(content.comparable(index), key)
    if originals is not None and originals.note:
        content.notes.append(originals.note)
    proven = None if result.records_are_features else result.records
    first = 0 if proven is None else len(proven)
    order = sorted(
        range(len(records)), key=lambda index: (not evidence[index].recovered, index < first)
    )
    names = preprocessing.class_names if preprocessing else ()
    cards = [
        Card(
            number=index + 1,
            certified=evidence[index].recovered,
            approximate=index >= first,
            reason=plain(evidence[index].reason or "no reason was recorded", 400),
            facts=_facts(
                evidence[index],
                names,
                content.mark(index),
                originals.errors(index) if originals else (),
                show_records=show_records,
            ),
            images=content.images(index),
            rows=content.rows(index),
            notes=(*content.card_notes(index), *_copies_note(evidence[index])),
        )
        for index in order[:MAX_CARDS]
    ]
    return RecordsView(
        kind=content.kind,
        redacted=not show_records,
        certified=tuple(card for card in cards if card.certified),
        approximate=tuple(card for card in cards if card.approximate),
        uncertified=tuple(card for card in cards if not card.certified and not card.approximate),
        total=len(records),
        columns=content.columns,
        notes=tuple(content.notes),
        has_originals=originals is not None,
        has_fingerprints=content.mark(0) is not None,
        keyed=salt is not None,
    )


def _everything(
    result: AuditResult,
) -> tuple[Float[Tensor, "r n"] | None, tuple[RecordEvidence, ...]]:
    """The reconstruction, followed by what is known approximately; inputs rather than features."""
    proven = None if result.records_are_features else result.records
    groups = [proven, result.approximate_records]
    there = [group for group in groups if group is not None and len(group)]
    if not there:
        return None, ()
    evidence = result.evidence if proven is not None else ()
    if result.approximate_records is not None:
        evidence += tuple(
            RecordEvidence(
                False,
                reason=known_how_well(item),
            )
            for item in result.approximate_evidence
        )
    return torch.cat(there), evidence


def _copies_note(evidence: RecordEvidence) -> tuple[str, ...]:
    if (evidence.copies or 1) == 1:
        return ()
    return (
        f"Stands for {evidence.copies:,} records: identical ones, of which this is one, or ones "
        "that the network cannot tell apart, of which this is the mean. How far those differ is "
        "unknown.",
    )


def _facts(
    evidence: RecordEvidence,
    names: tuple[str, ...],
    mark: str | None,
    errors: tuple[tuple[str, str], ...],
    *,
    show_records: bool,
) -> tuple[tuple[str, str], ...]:
    facts = []
    if evidence.label is not None:
        # A class can be a diagnosis: it is content like the rest.
        label = f"{evidence.label}"
        if evidence.label < len(names):
            label = plain(names[evidence.label], 60)
        facts.append(("Class", label if show_records else "withheld"))
    if evidence.copies is not None:
        facts.append(("In batch", "once" if evidence.copies == 1 else f"{evidence.copies:,} times"))
    facts.extend(errors)
    if mark is not None:
        facts.append(("Fingerprint", mark))
    return tuple(facts)
