"""The parts of a verdict: what decided the batch size, what was checked, what each check gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from gradaudit.decoding import Count


class Status(str, Enum):
    """What an audit established. There is no "safe": a failed attack proves nothing about others.

    Each member's `meaning` is a sentence for a person; an `AuditResult` adds the cause and the
    remedy of its own case.
    """

    RECOVERED = "recovered"
    PARTIAL = "partial"
    NOT_RECOVERED = "not_recovered"
    BUDGET_EXHAUSTED = "budget_exhausted"
    NOT_APPLICABLE = "not_applicable"

    @property
    def meaning(self) -> str:
        """One sentence for a person."""
        return _MEANINGS[self]

    @property
    def leak_proven(self) -> bool:
        """Whether at least one record was recovered and certified."""
        return self in (Status.RECOVERED, Status.PARTIAL)


_MEANINGS = {
    Status.RECOVERED: "Proven leak: every distinct record of the batch was recovered.",
    Status.PARTIAL: "Proven leak: some records of the batch were recovered.",
    Status.NOT_RECOVERED: "The attack ran and did not recover any record.",
    Status.BUDGET_EXHAUSTED: "The search ended before it was complete; nothing was proven.",
    Status.NOT_APPLICABLE: "The attack does not apply to this update.",
}


@dataclass(frozen=True)
class Spectrum:
    """The singular values of a layer's gradient and the batch size they show.

    Attributes:
        singular_values: In descending order.
        numerical_rank: Values above the threshold.
        threshold: The largest value that counts as rounding or noise.
        gap_ratio: Last value above the threshold over the first one below it, None without one.
        has_gap: Whether that ratio is wide enough to call the rank a batch size.
        largest_possible_rank: The rank at which a batch size can no longer be read off.
        noise_level: Root mean square of what the leading values leave, per gradient entry.
        explanation: The decision in words.
    """

    singular_values: tuple[float, ...]
    numerical_rank: Count
    threshold: float
    gap_ratio: float | None
    has_gap: bool
    largest_possible_rank: Count
    noise_level: float
    explanation: str


@dataclass(frozen=True)
class Check:
    """One comparison of a measured value with a tolerance.

    Attributes:
        name: Short, stable identifier.
        value: What was measured.
        tolerance: What it was compared with.
        passed: The outcome.
        meaning: What passing shows, for a person.
    """

    name: str
    value: float
    tolerance: float
    passed: bool
    meaning: str


@dataclass(frozen=True)
class Certificate:
    """Why recovered records are records of the batch, without ground truth.

    Attributes:
        kind: ``"full_gradient"`` (all layers recomputed), ``"layer"`` (the layer's gradient, bias
            gradient and activation pattern explained exactly), ``"activation_gradient"`` (each
            record's own share recomputed), ``"within_noise"`` (all but the noise explained, by
            records that are known to within their estimated errors), ``"explained_rows"`` (rows
            of the gradient that
            determine some records, of which others are missing) or ``"none"``.
        statement: What is proven, in words.
        checks: The comparisons behind it.
    """

    kind: str = "none"
    statement: str = "Nothing was certified."
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class RecordEvidence:
    """What speaks for one record.

    Attributes:
        recovered: Certified. Only `gradaudit.certify` sets it.
        vanishing_entries: Informative entries of the record's sparse factor column that are zero
            within tolerance.
        vanishing_needed: More than this many are needed: those a wrong direction gets for free
            and a margin.
        half_space_rows: Neurons whose predicted activation is clear of the tolerance.
        half_space_mismatches: Of those, the ones that contradict the observed pattern.
        activation_gradient_residual: Relative difference between the record's activation gradient
            as observed and as the given network computes it; None without a model.
        estimated_error: Root mean square error of an entry of the record that the gradient's own
            rounding or noise predicts, in the network's input units; None when not determined.
        label: The record's class, or None when it was not determined.
        copies: How often the record occurs in the batch; None when not determined. If more than
            once, the copies are identical, or the record is the mean of several that the network
            cannot tell apart. How far those differ leaves no trace in the update, and
            `estimated_error` does not include it.
        reason: Why it was not certified; empty when it was.
    """

    recovered: bool
    vanishing_entries: Count = 0
    vanishing_needed: Count = 0
    half_space_rows: Count = 0
    half_space_mismatches: Count = 0
    activation_gradient_residual: float | None = None
    estimated_error: float | None = None
    label: Count | None = None
    copies: Count | None = None
    reason: str = ""


@dataclass(frozen=True)
class ApproximateEvidence:
    """How well a record is known that is not recovered, but confined or only estimated.

    Attributes:
        estimated_error: Root mean square error of an entry, by the spread of all that the update
            leaves possible, in the network's input units; None where nothing bounds it.
        relative_error: The same relative to the record's own root mean square.
        residual: Norm of what is left unexplained of that which the estimate was made to match,
            relative to its own: the gradient, by all estimates together, or the record's features.
            None where nothing was matched. A small one is evidence, and no measure of the error.
        stable: Whether an independent second search led to the same estimate; None where there
            was none.
    """

    estimated_error: float | None
    relative_error: float | None
    residual: float | None = None
    stable: bool | None = None


@dataclass(frozen=True)
class LayerReport:
    """What was found out about one layer of the update.

    Attributes:
        name: Module path.
        shape: The weight's shape.
        role: ``"input"``, ``"interior"``, ``"output"`` or ``"other"``.
        analysed: Whether an attack ran on it.
        outcome: The status the attack reached, or None if none ran.
        reason: Why it was analysed, or why not.
        spectrum: Its singular values, when they were computed.
    """

    name: str
    shape: tuple[Count, ...]
    role: str
    analysed: bool
    outcome: Status | None
    reason: str
    spectrum: Spectrum | None = None


@dataclass(frozen=True)
class SearchReport:
    """How the search went; enough to repeat it.

    Attributes:
        attack: The attack that ran, such as ``"spear"``.
        reason: Why this one.
        setting: Which sparsity it used, in words.
        counters: What was counted, such as ``submatrices``.
        seconds: Time by phase.
        seed: Of every random choice.
        device: Where the search ran.
        observed_dtype: The floating-point type the gradient was observed in.
        versions: Of this package and what it computes with.
        machine: What rounding depends on besides: ``system``, ``processor`` (its architecture),
            ``instructions`` (the widest that torch uses) and, on a GPU, its name, ``gpu``.
        threads: That torch computed with; 0 when unknown.
        hurried: Whether the clock or an interruption ended any part of it; what another run finds
            is then open, whatever the seed; None when unknown.
    """

    attack: str = "none"
    reason: str = ""
    setting: str = ""
    counters: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    seed: int = 0
    device: str = "cpu"
    observed_dtype: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    threads: Count = 0
    hurried: bool | None = None

    @property
    def elapsed_seconds(self) -> float:
        """Of the whole audit: the ``total``, which also counts what lies between the phases."""
        return self.seconds.get("total", sum(self.seconds.values()))
