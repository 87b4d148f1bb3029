"""The verdict on records from a noisy gradient: not exact, but no accident either."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.certify.mixtures import (
    LARGEST_MISMATCH,
    mixed_in,
    stand_alone,
    with_their_likes,
)
from gradaudit.certify.network import Network
from gradaudit.certify.noisy_labels import clear_classes, fit_noisy_classes
from gradaudit.certify.refit import fit_again
from gradaudit.certify.shares import share_out
from gradaudit.certify.sides import CHANCE, Contradiction, Sides, contradiction, find_sides
from gradaudit.certify.verdict import Verdict
from gradaudit.evidence import Certificate, Check, RecordEvidence
from gradaudit.linear.problem import Problem

# A record whose error is more than this part of its own root mean square is no recovery.
LARGEST_RELATIVE_ERROR = 0.5
# Energy that the records leave in the gradient over that of the noise. The noise's own share
# is known to a thousandth in a gradient of a million entries; a batch with a record missing
# leaves its energy, which stands above the noise's edge.
LARGEST_REMAINDER = 1.05
_SAME = "another of the records found is the same within their errors"
_ALIKE = "a record that resembles it is not certified, and may be mixed into it"


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

    - together the records leave nothing in the gradient but noise, and fitted again they stay
      what they are;
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
        entry_error: Claimed standard error of an entry of each; no less than noise makes of it
            counts. Too small a claim is contradicted by neurons on the wrong side and by the fit,
            too large a one leaves no clear neurons.
        side_error: The same of a pre-activation, from what is mixed in of other records.
        network: For labels.
        image_shape: Of the network's inputs, if known.
        sign: Of the update against the gradient.

    Source:
        Ours. The count of half-spaces: Cover, 1965.
    """
    level = float(problem.sparse_noise.mean())
    solved = share_out(problem, records, level)
    refit = None if solved is None else fit_again(problem, records, solved[0], level)
    if solved is None or refit is None:
        reason = "the records found are not independent of each other"
        return Verdict(
            tuple(RecordEvidence(False, reason=reason) for _ in records), Certificate(), None
        )
    gradients, entry_noise, remainder = solved
    entry_error = entry_error.maximum(refit.noise)
    sides = find_sides(
        problem,
        records,
        gradients,
        entry_noise=entry_noise,
        entry_error=entry_error,
        side_error=side_error,
    )
    claimed = entry_error
    mixed = mixed_in(sides.inactive, gradients, entry_noise, records)
    entry_error = (entry_error.square() + mixed.square()).sqrt()
    relative = entry_error / records.square().mean(1).sqrt()
    # Of a record that noise hides next to nothing is known, not even that it is wrong.
    known = relative <= LARGEST_RELATIVE_ERROR
    alone = stand_alone(records, torch.where(known, entry_error, torch.zeros_like(entry_error)))
    contradictions = [
        contradiction(sides, index) if apart else Contradiction(_SAME, certain=True)
        for index, apart in enumerate(alone.tolist())
    ]
    doubtful = any(
        found.certain for found, told in zip(contradictions, known.tolist(), strict=True) if told
    )
    best, notes = fit_noisy_classes(network, records, gradients, image_shape, sign)
    labels = clear_classes(best) if best else [None] * len(records)
    evidence = tuple(
        _judge(
            sides,
            index,
            dimension=problem.batch_size,
            error=float(entry_error[index]),
            relative=float(relative[index]),
            remainder=remainder,
            moved=refit.objection(index, float(claimed[index])),
            contradicted=contradictions[index].reason,
            doubtful=doubtful,
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


def _judge(
    sides: Sides,
    index: int,
    *,
    dimension: int,
    error: float,
    relative: float,
    remainder: float,
    moved: str,
    contradicted: str,
    doubtful: bool,
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
    elif moved:
        reason = moved
    elif contradicted:
        reason = contradicted
    elif doubtful:
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
