"""The verdict on proposed records: which are recovered, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from gradaudit.certify.labels import Labelling, count_copies, match_labels
from gradaudit.certify.layer import LayerEvidence, examine
from gradaudit.certify.network import Network, NetworkMismatchError
from gradaudit.evidence import Certificate, Check, RecordEvidence
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.tolerances import (
    CHANCE_LOG10,
    GRADIENT_RELATIVE_LIMIT,
    GRADIENT_ROUNDINGS,
    RECORD_RELATIVE_ERROR,
    RESIDUAL_FACTOR,
    SINGLE_RECORD_ROWS,
)
from gradaudit.theory import log10_separable_by_chance


@dataclass(frozen=True, eq=False)
class Verdict:
    """What certification found.

    Attributes:
        evidence: Per record.
        certificate: Of the whole.
        gradients: dL/dZ solved from the records, or None when they are not independent.
        notes: What a reader should know about the network's part in it.
    """

    evidence: tuple[RecordEvidence, ...]
    certificate: Certificate
    gradients: Float[Tensor, "m b"] | None
    notes: tuple[str, ...] = ()

    @property
    def recovered(self) -> int:
        """Number of certified records."""
        return sum(record.recovered for record in self.evidence)


def certify(
    problem: Problem,
    records: Float[Tensor, "b n"],
    *,
    scale_identified: bool,
    network: Network | None = None,
    image_shape: tuple[int, ...] | None = None,
    sign: float = 1.0,
) -> Verdict:
    """Judge records by the observed update alone, never by how they were found.

    - From the layer: the records must explain its weight gradient and bias gradient, and every
      column of dL/dZ that they imply must vanish exactly where the ReLU says. One wrong record
      spoils another one's column, so that this certifies all records or none. (With sparse inputs
      each record stands for itself.)
    - From the network, if there is one: each record's activation gradient must be that of one
      class, and the full gradient of all layers, recomputed, must be the observed one.

    Args:
        problem: The layer as observed.
        records: Proposed inputs of the layer, float64.
        scale_identified: Whether the scale is claimed to be right.
        network: The model with the update's weights, given or guessed.
        image_shape: Of the network's inputs, if known.
        sign: 1 for a gradient, -1 for a difference of weights.
    """
    found = examine(problem, records, scale_identified)
    if found is None:
        reason = "The records are not independent, or not finite."
        blank = RecordEvidence(False, vanishing_needed=problem.zeros_needed, reason=reason)
        return Verdict((blank,) * len(records), Certificate(), None)
    reasons = _layer_reasons(problem, records, found)
    by_layer = _passed_by_layer(problem, found, reasons)
    evidence = [
        RecordEvidence(
            recovered=by_layer[j],
            vanishing_entries=int(found.zeros[j]),
            vanishing_needed=problem.zeros_needed,
            half_space_rows=int(found.judged[j]),
            half_space_mismatches=int(found.hard[j] + _excess(found, j)),
            estimated_error=float(found.estimated_error[j]),
            reason="" if by_layer[j] else reasons[j] or _others(found),
        )
        for j in range(len(records))
    ]
    certificate = Certificate(checks=found.checks)
    if any(by_layer):
        certificate = Certificate("layer", _layer_statement(problem), found.checks)
    notes: tuple[str, ...] = ()
    if network is not None and scale_identified and _depends_on_input(problem):
        try:
            network.prepare(records, image_shape)
            judge = _NetworkJudge(problem, records, found, network, sign)
            evidence = judge.evidence(evidence)
            certificate = judge.certificate(certificate, evidence)
            notes = judge.notes
        except NetworkMismatchError as error:
            notes = (f"The network took no part in the proof: {error}.",)
    return Verdict(tuple(evidence), certificate, found.gradients, notes)


def _excess(found: LayerEvidence, j: int) -> int:
    return max(int(found.soft[j]) - found.soft_allowed[j], 0)


def _layer_reasons(
    problem: Problem, records: Float[Tensor, "b n"], found: LayerEvidence
) -> list[str]:
    """Per record, why its own column does not certify it; empty when it does."""
    if not _depends_on_input(problem):
        return [
            "The layer's output does not depend on its input (zero weights), so that one record "
            "cannot be told from the mean of several."
        ] * len(records)
    reasons = []
    size = records.shape[1] ** 0.5
    for j, record in enumerate(records):
        error = float(found.estimated_error[j]) * size / float(record.norm())
        if error > RECORD_RELATIVE_ERROR:
            reasons.append(f"Its predicted error is {error:.0%} of its size.")
        elif problem.batch_size == 1:
            reasons.append(_single_record_reason(problem, found))
        else:
            reasons.append(_column_reason(problem, found, j))
    return reasons


def _depends_on_input(problem: Problem) -> bool:
    return bool(problem.preactivation_map.abs().max() > 0)


def _column_reason(problem: Problem, found: LayerEvidence, j: int) -> str:
    zeros, judged = int(found.zeros[j]), int(found.judged[j])
    by_gradient = problem.setting is Setting.SPARSE_GRADIENT
    dimension = problem.batch_size + 1 if by_gradient else 1
    if zeros <= problem.zeros_needed:
        return f"Its column vanishes in {zeros} entries; more than {problem.zeros_needed} needed."
    wrong = int(found.hard[j]) + _excess(found, j)
    if wrong:
        what = (
            "neurons contradict the activation it predicts"
            if by_gradient
            else ("entries are negative")
        )
        return f"{wrong} of {judged} {what}."
    if log10_separable_by_chance(judged, dimension) > CHANCE_LOG10:
        return f"Only {judged} entries judge it, too few to exclude chance."
    if bool(found.nested[j]):
        return "Its support contains another record's, as a sum of the two would."
    return ""


def _single_record_reason(problem: Problem, found: LayerEvidence) -> str:
    """Why a rank of one does not show one record."""
    live = int(problem.live.sum())
    if problem.setting is Setting.SPARSE_GRADIENT and live < SINGLE_RECORD_ROWS:
        return (
            f"Only {live} neurons carry gradient; with fewer than {SINGLE_RECORD_ROWS} it can be "
            "a mean of several records."
        )
    total = len(problem.live)
    if live < total and int(found.hard[0]) + _excess(found, 0):
        return f"{total - live} neurons are silent, but not those that this record silences."
    return ""


def _others(found: LayerEvidence) -> str:
    failed = [check.name for check in found.checks if not check.passed]
    if failed:
        return f"The batch as a whole fails {', '.join(failed)}."
    return "Another record of the batch is wrong, which can spoil this one."


def _passed_by_layer(problem: Problem, found: LayerEvidence, reasons: list[str]) -> list[bool]:
    if not all(check.passed for check in found.checks):
        return [False] * len(reasons)
    if problem.setting is Setting.SPARSE_INPUT:
        return [not reason for reason in reasons]
    return [not any(reasons)] * len(reasons)


def _layer_statement(problem: Problem) -> str:
    if problem.batch_size == 1:
        return (
            "The layer's weight gradient is, in every entry, the bias gradient times this record; "
            "a batch with several distinct records has a higher rank."
        )
    if problem.setting is Setting.SPARSE_INPUT:
        return (
            "The records explain the layer's weight gradient exactly; each is nowhere negative and "
            "vanishes on more entries than any mixture of records does."
        )
    scale = "" if problem.layer.bias_gradient is None else " and its bias gradient"
    return (
        f"The records explain the layer's weight gradient{scale} exactly, and every record's share "
        "of it vanishes at precisely the neurons that the record does not activate."
    )


class _NetworkJudge:
    """Certification by the whole network."""

    def __init__(
        self,
        problem: Problem,
        records: Float[Tensor, "b n"],
        found: LayerEvidence,
        network: Network,
        sign: float,
    ) -> None:
        self._records, self._found, self._network = records, found, network
        noise = RESIDUAL_FACTOR * found.relative_noise
        rounding = GRADIENT_ROUNDINGS * problem.observed_eps
        self._tolerances = (noise + rounding).clamp(max=GRADIENT_RELATIVE_LIMIT)
        self._labelling: Labelling = match_labels(network, records, found.gradients, sign=sign)
        self._matched = self._labelling.residuals <= self._tolerances
        copies = count_copies(self._labelling.weights) if bool(self._matched.all()) else None
        self._copies: Tensor | None = copies[0] if copies else None
        self._factor: float | None = copies[1] if copies else None
        self._check = self._full_gradient_check()
        self.notes = self._notes()

    @property
    def _complete(self) -> bool:
        return self._check is not None and self._check.passed

    def evidence(self, evidence: list[RecordEvidence]) -> list[RecordEvidence]:
        """Add labels, copies and residuals; certify what the network alone proves."""
        result = []
        size = self._records.square().mean(1).sqrt()
        for j, record in enumerate(evidence):
            matched = bool(self._matched[j])
            residual = float(self._labelling.residuals[j])
            error = max(record.estimated_error or 0.0, residual * float(size[j]) if matched else 0)
            accurate = error <= RECORD_RELATIVE_ERROR * float(size[j])
            proven = record.recovered or (matched and accurate)
            result.append(
                replace(
                    record,
                    recovered=proven,
                    activation_gradient_residual=residual,
                    estimated_error=record.estimated_error if record.recovered else error,
                    label=int(self._labelling.labels[j]) if matched else None,
                    copies=int(self._copies[j]) if self._copies is not None else None,
                    reason="" if proven else record.reason,
                )
            )
        return result

    def certificate(self, layer: Certificate, evidence: list[RecordEvidence]) -> Certificate:
        """The strongest statement that holds."""
        checks = layer.checks + (() if self._check is None else (self._check,))
        if self._complete:
            return Certificate(
                "full_gradient",
                "The full gradient of all layers, recomputed from the recovered records and "
                "labels, is the observed one down to rounding or noise.",
                checks,
            )
        if layer.kind == "none" and any(record.recovered for record in evidence):
            return Certificate(
                "activation_gradient",
                "The network, run on each certified record, reproduces that record's own share of "
                "the gradient.",
                checks,
            )
        return replace(layer, checks=checks)

    def _full_gradient_check(self) -> Check | None:
        if not bool(self._matched.all()):
            return None
        pairs = self._network.full_gradient(
            self._records, self._labelling.labels, self._labelling.weights
        ).values()
        difference = sum(float((mine - theirs).square().sum()) for mine, theirs in pairs)
        total = sum(float(theirs.square().sum()) for _, theirs in pairs)
        residual = (difference / total) ** 0.5 if total else float("inf")
        tolerance = float(self._tolerances.max())
        return Check(
            "full_gradient_residual",
            residual,
            tolerance,
            residual <= tolerance,
            "The gradient of all layers, recomputed from records and labels, is the observed one.",
        )

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if not bool(self._matched.all()):
            worst = float(self._labelling.residuals.max())
            notes.append(
                f"{int((~self._matched).sum())} of {len(self._matched)} records match no class in "
                f"the network (relative difference up to {worst:.2g}): another loss, training "
                "mode, or a wrong record."
            )
        elif not self._complete and self._check is not None:
            notes.append(
                f"The network does not reproduce the full gradient (relative difference "
                f"{self._check.value:.2g}): another loss or training mode."
            )
        if self._factor is not None and self._complete:
            notes.append(
                f"The update is {self._factor:.6g} times the mean gradient of the records' losses."
            )
        return tuple(notes)
