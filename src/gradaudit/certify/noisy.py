"""The verdict on records from a noisy gradient: not exact, but no accident either."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.certify.labels import best_labels, fit_classes
from gradaudit.certify.mixtures import (
    LARGEST_MISMATCH,
    allowed_strays,
    mixed_in,
    stand_alone,
    with_their_likes,
)
from gradaudit.certify.network import Network, NetworkMismatchError
from gradaudit.certify.verdict import Verdict
from gradaudit.evidence import Certificate, Check, RecordEvidence
from gradaudit.linear.problem import Problem
from gradaudit.noisy.expectation import UNCERTAIN, posterior, two_part_evidence
from gradaudit.theory import log10_separable_by_chance

# A neuron's side is clear where the record's pre-activation is so many standard errors from zero,
# and an entry vanishes where it is within as many of zero.
CLEAR_SIGMAS = 3.0
# Entries of clearly inactive neurons, in units of their noise: the largest one, and the root mean
# square. Right records: up to 10 for a neuron close to its boundary, and 0.8 to 1.7. A mixture of
# two records that resemble each other leaves few neurons on the wrong side, but those far out: 76
# and more, and 12. (Smaller shares are measured by `mixed_in`.)
LARGEST_INACTIVE, LARGEST_INACTIVE_RMS = 30.0, 5.0
# Log10 of the probability that some half-space and some direction agree so well by accident.
CHANCE = -6.0
# A record whose error is more than this part of its own root mean square is no recovery.
LARGEST_RELATIVE_ERROR = 0.5
# Energy that the records leave in the gradient over that of the noise. The noise's own share
# is known to a thousandth in a gradient of a million entries; a batch with a record missing
# leaves its energy, which stands above the noise's edge.
LARGEST_REMAINDER = 1.05
# Residual of the best class over that of the next, for a label to be told.
LABEL_MARGIN = 0.9
_ALIKE = "a record that resembles it is not certified, and may be mixed into it"


@dataclass(frozen=True, eq=False)
class Sides:
    """Neurons whose side of zero is clear, by record, and what their entries are.

    Attributes:
        inactive: Clearly inactive for the record.
        active: Clearly active.
        vanishing: Whose entry of dL/dZ is within noise of zero.
        entries: Of dL/dZ, in units of their noise.
        chance: Log10 of the probability that such entries and sides agree by accident.
    """

    inactive: Bool[Tensor, "b m"]
    active: Bool[Tensor, "b m"]
    vanishing: Bool[Tensor, "b m"]
    entries: Float[Tensor, "b m"]
    chance: list[float]


def certify_under_noise(
    problem: Problem,
    records: Float[Tensor, "b n"],
    *,
    entry_error: Float[Tensor, " b"],
    side_error: Float[Tensor, " b"],
    network: Network | None = None,
    image_shape: tuple[int, ...] | None = None,
    sign: float = 1.0,
) -> Verdict:
    r"""Judge records by the observed update and the noise's level, never by how they were found.

    The records alone give :math:`\partial L / \partial Z` by least squares, with a known standard
    error, and the pre-activations :math:`W x + \beta`. Noise hides what an exact certificate rests
    on, so that a record is certified for what is left:

    - together the records leave nothing in the gradient but noise;
    - the neurons that the record clearly leaves inactive have entries that vanish within noise;
    - no half-space with any direction would look so by accident: the likelihood ratio of entries
      that are narrow on the one side and wide on the other, against entries that are all alike,
      exceeds what the best of all half-spaces (Cover's count) and directions reach by chance;
    - no record found with it is contradicted, since a wrong one may be mixed into it, and those
      that resemble it are certified too;
    - its expected error is less than half of its own size.

    What it claims is that error, not equality.

    Args:
        problem: The layer, at the rank that stands above the noise.
        records: Proposed inputs.
        entry_error: Claimed standard error of an entry of each. Too small a claim is contradicted
            by neurons on the wrong side, too large a one leaves no clear neurons.
        side_error: The same of a pre-activation, from what is mixed in of other records.
        network: For labels.
        image_shape: Of the network's inputs, if known.
        sign: Of the update against the gradient.

    Source:
        Ours. The count of half-spaces: Cover, 1965.
    """
    level = float(problem.sparse_noise.mean())
    solved = _solve(problem, records, level)
    if solved is None:
        reason = "the records found are not independent of each other"
        return Verdict(
            tuple(RecordEvidence(False, reason=reason) for _ in records), Certificate(), None
        )
    gradients, entry_noise, remainder = solved
    sides = _sides(
        problem,
        records,
        gradients,
        entry_noise=entry_noise,
        entry_error=entry_error,
        side_error=side_error,
    )
    mixed = mixed_in(sides.inactive, gradients, entry_noise, records)
    entry_error = (entry_error.square() + mixed.square()).sqrt()
    relative = entry_error / records.square().mean(1).sqrt()
    # Of a record that noise hides next to nothing is known, not even that it is wrong.
    known = relative <= LARGEST_RELATIVE_ERROR
    alone = stand_alone(records, torch.where(known, entry_error, torch.zeros_like(entry_error)))
    contradictions = [
        _contradiction(sides, index, bool(alone[index])) if bool(known[index]) else ""
        for index in range(len(records))
    ]
    labels, notes = _labels(network, records, gradients, image_shape, sign)
    evidence = tuple(
        _judge(
            sides,
            index,
            dimension=problem.batch_size,
            error=float(entry_error[index]),
            relative=float(relative[index]),
            remainder=remainder,
            contradictions=contradictions,
            label=label,
        )
        for index, label in enumerate(labels)
    )
    own = torch.tensor([record.recovered for record in evidence], device=records.device)
    kept = with_their_likes(records, own).tolist()
    evidence = tuple(
        record if keep or not record.recovered else replace(record, recovered=False, reason=_ALIKE)
        for record, keep in zip(evidence, kept, strict=True)
    )
    return Verdict(evidence, _certificate(evidence, remainder, level), gradients, notes)


def _solve(
    problem: Problem, records: Float[Tensor, "b n"], level: float
) -> tuple[Float[Tensor, "m b"], Float[Tensor, " b"], float] | None:
    """dL/dZ by least squares, the error of its columns' entries, and the remainder over noise."""
    observed = problem.layer.weight_gradient
    design = records
    if problem.layer.bias_gradient is not None:
        observed = torch.cat([observed, problem.layer.bias_gradient[:, None]], dim=1)
        design = torch.cat([records, torch.ones_like(records[:, :1])], dim=1)
    factor, failed = torch.linalg.cholesky_ex(design @ design.T)
    if int(failed) or not bool(torch.isfinite(factor).all()):
        return None
    gradients = torch.cholesky_solve(design @ observed.T, factor).T
    rest = observed - gradients @ design
    # Both factors were fitted.
    freedom = (len(observed) - len(records)) * (observed.shape[1] - len(records))
    remainder = float(rest.square().sum()) / freedom / level**2
    entry_noise = level * torch.cholesky_inverse(factor).diagonal().sqrt()
    return gradients, entry_noise, remainder


def _sides(
    problem: Problem,
    records: Float[Tensor, "b n"],
    gradients: Float[Tensor, "m b"],
    *,
    entry_noise: Float[Tensor, " b"],
    entry_error: Float[Tensor, " b"],
    side_error: Float[Tensor, " b"],
) -> Sides:
    layer = problem.layer
    bias = 0.0 if layer.bias is None else layer.bias
    margins = records @ layer.weight.T + bias
    own = entry_error[:, None] * layer.weight.norm(dim=1)
    margins = margins / (own.square() + side_error[:, None].square()).sqrt()
    entries, narrow = gradients.T, entry_noise[:, None].square()
    return Sides(
        margins < -CLEAR_SIGMAS,
        margins > CLEAR_SIGMAS,
        entries.abs() <= CLEAR_SIGMAS * entry_noise[:, None],
        entries.abs() / entry_noise[:, None],
        log10_chance(entries.square(), margins, narrow, problem.batch_size),
    )


def log10_chance(
    squares: Float[Tensor, "b m"],
    margins: Float[Tensor, "b m"],
    narrow: Float[Tensor, "b 1"],
    dimension: int,
) -> list[float]:
    r"""Bound on the probability that records' sides and entries agree by accident, as log10.

    By Markov's inequality the likelihood ratio of a fixed half-space and direction exceeds
    :math:`e^t` with probability :math:`e^{-t}` at most where entries are all alike. Half-spaces
    number at most :math:`2 \sum_{k<r} \binom{m-1}{k}`; of directions, about
    :math:`(s / \tau)^{r-1}` differ by more than the noise :math:`\tau` in entries of size s.

    Args:
        squares: Of the entries of dL/dZ.
        margins: Pre-activations over their standard error.
        narrow: Variance of the noise in an entry.
        dimension: r, of the span in which directions and half-spaces lie.
    """
    prior = torch.special.ndtr(margins).clamp(UNCERTAIN, 1 - UNCERTAIN)
    wide = posterior(squares, prior, narrow)[1]
    count = squares.shape[1]
    ratio = two_part_evidence(squares, prior, narrow, wide) * count
    directions = (dimension - 1) / 2 * torch.log(squares.mean(1) / narrow[:, 0]).clamp(min=0)
    half_spaces = log10_separable_by_chance(count, dimension) + count * math.log10(2)
    chances = half_spaces + (directions - ratio) / math.log(10)
    return [min(chance, 0.0) for chance in chances.tolist()]


def _contradiction(sides: Sides, index: int, alone: bool) -> str:
    """Why a record cannot be right, by neurons that it clearly leaves inactive; empty if it can."""
    inactive = sides.inactive[index]
    clear = int(inactive.sum())
    wrong = int((inactive & ~sides.vanishing[index]).sum())
    silent = sides.entries[index][inactive]
    if not alone:
        return "another of the records found is the same within their errors"
    if wrong > allowed_strays(clear):
        return f"{wrong} of {clear} neurons that it leaves inactive have gradients above noise"
    if clear and (
        float(silent.max()) > LARGEST_INACTIVE
        or float(silent.square().mean().sqrt()) > LARGEST_INACTIVE_RMS
    ):
        return (
            f"a neuron that it leaves inactive has a gradient of {float(silent.max()):.0f} times "
            "the noise, as where another record is mixed in"
        )
    return ""


def _judge(
    sides: Sides,
    index: int,
    *,
    dimension: int,
    error: float,
    relative: float,
    remainder: float,
    contradictions: list[str],
    label: int | None,
) -> RecordEvidence:
    inactive = sides.inactive[index]
    clear = int(inactive.sum())
    wrong = int((inactive & ~sides.vanishing[index]).sum())
    chance = sides.chance[index]
    reason = ""
    if not math.isfinite(error) or not relative <= LARGEST_RELATIVE_ERROR:
        reason = f"its expected error is {relative:.0%} of its size: noise hides it"
    elif remainder > LARGEST_REMAINDER:
        reason = "the records leave more of the gradient unexplained than noise would"
    elif contradictions[index]:
        reason = contradictions[index]
    elif any(contradictions):
        reason = "another record is contradicted, and may be mixed into it"
    elif chance > CHANCE:
        reason = f"its neurons do not exclude an accident (of probability up to 1e{chance:.0f})"
    return RecordEvidence(
        recovered=not reason,
        vanishing_entries=clear - wrong,
        vanishing_needed=dimension - 1,
        half_space_rows=clear,
        half_space_mismatches=wrong,
        estimated_error=error if math.isfinite(error) else None,
        label=label,
        reason=reason,
    )


def _labels(
    network: Network | None,
    records: Float[Tensor, "b n"],
    gradients: Float[Tensor, "m b"],
    image_shape: tuple[int, ...] | None,
    sign: float,
) -> tuple[list[int | None], tuple[str, ...]]:
    """Each record's class, where one fits its activation gradient clearly better than others."""
    unknown: list[int | None] = [None] * len(records)
    if network is None:
        return unknown, ()
    try:
        network.prepare(records, image_shape)
        # No class fits exactly: all of them are to be worked out, and compared.
        all_of_them = torch.zeros_like(records[:, 0])
        fits = fit_classes(network.forward(records), gradients, sign=sign, tolerances=all_of_them)
        best = best_labels(fits, sign)
    except NetworkMismatchError as mismatch:
        return unknown, (f"Labels were not determined: {mismatch}",)
    told = best.residuals < LABEL_MARGIN * best.rivals
    return [
        int(label) if bool(clear) else None for label, clear in zip(best.labels, told, strict=True)
    ], ()


def _certificate(
    evidence: tuple[RecordEvidence, ...], remainder: float, level: float
) -> Certificate:
    certified = [record for record in evidence if record.recovered]
    if not certified:
        return Certificate()
    rows = sum(record.half_space_rows for record in certified)
    wrong = sum(record.half_space_mismatches for record in certified) / max(rows, 1)
    return Certificate(
        kind="within_noise",
        statement=(
            f"{len(certified)} records explain the layer's gradient down to noise of standard "
            f"deviation {level:.2g}, and fire its neurons as the gradient shows. They are known to "
            "within the estimated error of each, not exactly."
        ),
        checks=(
            Check(
                "remainder_over_noise",
                remainder,
                LARGEST_REMAINDER,
                remainder <= LARGEST_REMAINDER,
                "The records leave nothing in the gradient but noise.",
            ),
            Check(
                "neurons_on_the_wrong_side",
                wrong,
                LARGEST_MISMATCH,
                wrong <= LARGEST_MISMATCH,
                "Neurons that a record clearly leaves inactive have no gradient above noise.",
            ),
        ),
    )
