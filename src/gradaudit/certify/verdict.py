"""The verdict on proposed records: which are recovered, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from gradaudit.certify.by_network import NetworkJudge
from gradaudit.certify.forward import Forward
from gradaudit.certify.layer import LayerEvidence, examine
from gradaudit.certify.merged import merged_reason
from gradaudit.certify.network import Network, NetworkMismatchError
from gradaudit.certify.single import (
    CLASS_SPREAD,
    VISIBLE_FACTOR,
    reach_reason,
    single_record_reason,
    two_class_reason,
)
from gradaudit.certify.trained import labels_by_resemblance, merging_reason, trained_statement
from gradaudit.evidence import Certificate, RecordEvidence
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.tolerances import RECORD_RELATIVE_ERROR


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
    total: float | None = None,
    following: Float[Tensor, "c m"] | None = None,
) -> Verdict:
    """Judge records by the observed update alone, never by how they were found.

    - From the layer: the records must explain its weight gradient and bias gradient, and every
      column of dL/dZ that they imply must vanish exactly where the ReLU says. One wrong record
      spoils another one's column, so that this certifies all records or none. (With sparse inputs
      each record stands for itself.)
    - From the network, if there is one: each record's activation gradient must be that of one
      class, and the full gradient of all layers, recomputed, must be the observed one. Where its
      classes do not tell records apart, each must weigh a whole number of records.

    After several steps of training the proof rests on the layer alone, and on the neurons that
    training cannot have moved across their boundary; the network, which cannot be run as the client
    ran it, gives labels.

    Args:
        problem: The layer as observed.
        records: Proposed inputs of the layer, float64.
        scale_identified: Whether the scale is claimed to be right.
        network: The model, given or guessed, with the update's weights; after several steps with
            those halfway.
        image_shape: Of the network's inputs, if known.
        sign: 1 for a gradient, -1 for a difference of weights.
        total: What the records' weights sum to, if known: 1 for a mean gradient, minus the
            learning rate for a difference.
        following: Product of the later layers' weight matrices, if they are a chain.
    """
    found = examine(problem, records, scale_identified, is_delta=sign < 0)
    if found is None:
        reason = "The records are not independent, not finite, or not as many as the rank."
        blank = RecordEvidence(False, vanishing_needed=problem.zeros_needed, reason=reason)
        return Verdict((blank,) * len(records), Certificate(), None)
    judge: NetworkJudge | None = None
    forward: Forward | None = None
    notes: tuple[str, ...] = ()
    if network is not None and scale_identified and _depends_on_input(problem):
        try:
            network.prepare(records, image_shape)
            if problem.layer.several_steps:
                forward = network.forward(records)
            else:
                judge = NetworkJudge(problem, records, found, network, sign=sign, total=total)
                notes = judge.notes()
        except NetworkMismatchError as error:
            notes = (f"The network took no part in the proof: {error}.",)
    reasons = _reasons(
        problem,
        records,
        found,
        judge=judge,
        forward=forward,
        following=following,
        scale_identified=scale_identified,
    )
    by_layer = _passed_by_layer(problem, found, reasons)
    evidence = [
        RecordEvidence(
            recovered=by_layer[j],
            vanishing_entries=int(found.pattern.zeros[j]),
            vanishing_needed=problem.zeros_needed,
            half_space_rows=int(found.pattern.judged[j]),
            half_space_mismatches=found.pattern.mismatches(j),
            estimated_error=float(found.estimated_error[j]),
            reason="" if by_layer[j] else reasons[j] or _others(found),
        )
        for j in range(len(records))
    ]
    certificate = Certificate(checks=found.checks)
    if any(by_layer):
        certificate = Certificate("layer", _layer_statement(problem), found.checks)
    if judge is not None:
        evidence = judge.evidence(evidence)
        certificate = judge.certificate(certificate, evidence)
    if forward is not None:
        evidence, note = labels_by_resemblance(forward, found.gradients, evidence, sign=sign)
        notes = (note,)
    return Verdict(tuple(evidence), certificate, found.gradients, notes)


def _reasons(
    problem: Problem,
    records: Float[Tensor, "b n"],
    found: LayerEvidence,
    *,
    judge: NetworkJudge | None,
    forward: Forward | None,
    following: Float[Tensor, "c m"] | None,
    scale_identified: bool,
) -> list[str]:
    """Per record, why its own column does not certify it; empty when it does."""
    if not _depends_on_input(problem):
        return [
            "The layer's output does not depend on its input (zero weights), so that one record "
            "cannot be told from the mean of several."
        ] * len(records)
    merging = merging_reason(problem, forward) if problem.layer.several_steps else ""
    reasons = []
    size = records.shape[1] ** 0.5
    for j, record in enumerate(records):
        error = float(found.estimated_error[j]) * size / float(record.norm())
        if error > RECORD_RELATIVE_ERROR:
            reasons.append(f"Its predicted error is {error:.0%} of its size.")
            continue
        if merging:
            reasons.append(merging)
            continue
        wrong = found.pattern.mismatches(j)
        if problem.batch_size > 1:
            reason = found.pattern.objection(problem, j)
        elif judge is not None and judge.is_flat(j):
            reason = ""
        else:
            reason = single_record_reason(
                problem,
                records,
                found.gradients,
                scale_identified=scale_identified,
                mismatches=wrong,
                judged=found.pattern.clear[j],
                left_over=found.left_over,
                only_rounding=found.only_rounding,
                view=judge,
                following=following,
            )
        if not reason and problem.batch_size == 1 and judge is not None and judge.contradiction:
            # Rank one leaves the layer little to contradict: a bias gradient of another factor
            # than the weights', as of another learning rate, makes another record.
            reason = judge.contradiction
        if not reason and judge is not None and judge.is_flat(j):
            reason = two_class_reason(
                problem,
                records,
                found.gradients,
                mismatches=wrong,
                judged=found.pattern.clear[j],
                whole=judge.whole,
                tells_multiples=judge.tells_multiples(j),
                following=following,
            )
        if not reason and problem.setting is Setting.SPARSE_INPUT:
            reason = _mean_reason(problem, records, found, judge, j)
        # Without a network their weights are not known.
        flat = judge is None and following is not None and len(following) <= 2
        if not reason and flat and scale_identified and not problem.layer.several_steps:
            reason = merged_reason(problem, record)
        reasons.append(reason)
    return reasons


def _mean_reason(
    problem: Problem,
    records: Float[Tensor, "b n"],
    found: LayerEvidence,
    judge: NetworkJudge | None,
    j: int,
) -> str:
    """Why an output layer's record may be the mean of a class: the loss hardly sees the input."""
    if judge is None or not judge.confirms(j):
        return reach_reason(problem, records, found.left_over)
    if judge.trace_of_two(j, CLASS_SPREAD) > VISIBLE_FACTOR * found.left_over:
        return ""
    return (
        "The network's gradient hardly depends on the record, so that it can be the mean of "
        "several of one class."
    )


def _depends_on_input(problem: Problem) -> bool:
    return bool(problem.preactivation_map.abs().max() > 0)


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
    if problem.layer.several_steps:
        return trained_statement(problem)
    scale = "" if problem.layer.bias_gradient is None else " and its bias gradient"
    return (
        f"The records explain the layer's weight gradient{scale} exactly, and every record's share "
        "of it vanishes at precisely the neurons that the record does not activate."
    )
