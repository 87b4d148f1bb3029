"""The verdict on some of a batch's records, when the others are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from gradaudit.certify.curvature import curvature
from gradaudit.certify.labels import best_labels, fit_classes
from gradaudit.certify.network import Network, NetworkMismatchError
from gradaudit.certify.rows import RowEvidence, examine_rows
from gradaudit.certify.verdict import Verdict
from gradaudit.evidence import Certificate, RecordEvidence
from gradaudit.linear.disaggregate import Batch
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.tolerances import (
    GRADIENT_RELATIVE_LIMIT,
    GRADIENT_ROUNDINGS,
    RECORD_RELATIVE_ERROR,
    RESIDUAL_FACTOR,
)

_STATEMENT = (
    "Rows of the layer's weight gradient and bias gradient that the records found explain exactly "
    "determine each certified record, whichever two are left out; its share of the gradient "
    "vanishes at precisely the neurons that it does not activate, and is what the network, run on "
    "the record, computes."
)
_NO_ROWS = "No row of the gradient is explained without records that are missing."
_UNCERTAIN = "Its predicted error is {:.0%} of its size."
_NO_NETWORK = (
    "Rows of the gradient determine it, but no network confirms it, without which a missing record "
    "of nearly proportional gradient could take part in them unnoticed."
)


def certify_partial(
    problem: Problem,
    batch: Batch,
    *,
    missing: int,
    network: Network | None = None,
    image_shape: tuple[int, ...] | None = None,
    sign: float = 1.0,
) -> Verdict:
    """Judge some of the records, as long as others are missing.

    A record is certified when

    - the rows of the weight gradient and of the bias gradient that the proposed records explain to
      within rounding determine it, whichever two of these rows are left out;
    - its column of dL/dZ vanishes exactly where the ReLU says, at more neurons than any mixture,
      and no other column does so;
    - the network, run on it, computes that column for one class and no other. This excludes what
      rows alone cannot: a missing record that fires the same neurons, with a gradient that is
      proportional to this one's and so small that the zeros do not show it.

    Args:
        problem: A layer.
        batch: Proposed records with their directions, fewer than its rank.
        missing: Directions that were not found, at least 1.
        network: As for `certify`; nothing is certified without one.
        image_shape: As for `certify`.
        sign: As for `certify`.
    """
    blank = RecordEvidence(False, vanishing_needed=problem.zeros_needed, reason=_NO_ROWS)
    evidence = [blank] * len(batch.records)
    depends = bool(problem.preactivation_map.abs().max() > 0)
    if problem.setting is not Setting.SPARSE_GRADIENT or not depends or not batch.scale_identified:
        return Verdict(tuple(evidence), Certificate(), None)
    rows, kept = _by_rows(problem, batch, missing, evidence)
    notes: tuple[str, ...] = ()
    determined = [place for place, j in enumerate(kept) if evidence[j].reason == _NO_NETWORK]
    if rows is not None and network is not None and determined:
        try:
            network.prepare(batch.records, image_shape)
            for place, record in _by_network(
                problem, batch.records[kept], rows, determined, network=network, sign=sign
            ).items():
                evidence[kept[place]] = replace(evidence[kept[place]], **record)
        except NetworkMismatchError as error:
            notes = (f"The network took no part in the proof: {error}.",)
    certificate = Certificate(checks=rows.checks if rows is not None else ())
    if any(record.recovered for record in evidence):
        certificate = replace(certificate, kind="explained_rows", statement=_STATEMENT)
    return Verdict(tuple(evidence), certificate, batch.activation_gradients, notes)


def _by_rows(
    problem: Problem, batch: Batch, missing: int, evidence: list[RecordEvidence]
) -> tuple[RowEvidence | None, list[int]]:
    """Write down what the rows say of each record; the last rows, and the records behind them."""
    kept = list(range(len(evidence)))
    rows = None
    while kept:
        rows = examine_rows(problem, batch.records[kept], batch.directions[kept], missing=missing)
        if rows is None:
            return None, []
        wrong = []
        for place, j in enumerate(kept):
            objection = rows.pattern.objection(problem, place)
            if objection:
                wrong.append(j)
            evidence[j] = RecordEvidence(
                recovered=False,
                vanishing_entries=int(rows.pattern.zeros[place]),
                vanishing_needed=problem.zeros_needed,
                half_space_rows=int(rows.pattern.judged[place]),
                half_space_mismatches=rows.pattern.mismatches(place),
                estimated_error=float(rows.estimated_error[place]),
                reason=objection or _too_loose(batch.records[j], rows, place) or _NO_NETWORK,
            )
        if not wrong:
            break
        # A record that is wrong may not help to explain the rows of others.
        kept = [j for j in kept if j not in wrong]
    return rows, kept


def _too_loose(record: Float[Tensor, " n"], rows: RowEvidence, place: int) -> str:
    """Why rows do not determine a record; empty when they do."""
    if not bool(rows.firm[place]):
        return (
            f"{int(rows.rows[place])} rows of the gradient are explained with it, too few to "
            "exclude that a missing record has a share in them."
        )
    return _too_uncertain(float(rows.estimated_error[place]), record)


def _too_uncertain(error: float, record: Float[Tensor, " n"]) -> str:
    relative = error / float(record.square().mean().sqrt())
    return "" if relative <= RECORD_RELATIVE_ERROR else _UNCERTAIN.format(relative)


def _by_network(
    problem: Problem,
    records: Float[Tensor, "r n"],
    rows: RowEvidence,
    determined: list[int],
    *,
    network: Network,
    sign: float,
) -> dict[int, dict[str, Any]]:
    """By place of the records that rows determine: what the network adds to their evidence."""
    noise = RESIDUAL_FACTOR * rows.relative_noise[determined]
    rounding = GRADIENT_ROUNDINGS * problem.observed_eps
    tolerances = (noise + rounding).clamp(max=GRADIENT_RELATIVE_LIMIT)
    forward = network.forward(records[determined])
    fits = best_labels(
        fit_classes(forward, rows.gradients[:, determined], sign=sign, tolerances=tolerances), sign
    )
    found = {}
    for number, place in enumerate(determined):
        tolerance = float(tolerances[number])
        residual, rival = float(fits.residuals[number]), float(fits.rivals[number])
        record, label, error = records[place], fits.labels[number], float("inf")
        if residual > tolerance:
            reason = f"The network's gradient of it differs from its share by {residual:.2g}."
        elif rival <= tolerance:
            reason = (
                "Gradients of all classes are proportional here (two classes or one logit), so "
                "that a missing record could take part in its rows unnoticed."
            )
        else:
            turn = curvature(network, record, label)
            # What the match with the network would not show.
            hidden = tolerance / turn if turn else float("inf")
            error = max(
                float(rows.estimated_error[place]), hidden * float(record.square().mean().sqrt())
            )
            reason = _too_uncertain(error, record)
        found[place] = {
            "recovered": not reason,
            "activation_gradient_residual": residual,
            "label": None if reason else int(label),
            "estimated_error": None if reason else error,
            "reason": reason,
        }
    return found
