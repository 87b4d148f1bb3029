"""Which side of zero a noisy record puts each neuron on, and whether its gradient agrees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.certify.mixtures import LARGEST_MISMATCH, allowed_strays
from gradaudit.linear.blocks import applied, row_norms
from gradaudit.linear.problem import Problem
from gradaudit.noisy.expectation import UNCERTAIN, posterior, two_part_evidence
from gradaudit.theory import log10_separable_by_chance
from gradaudit.theory.counts import binomial_at_least

# A neuron's side is clear where the record's pre-activation is so many standard errors from zero,
# and an entry vanishes where it is within as many of zero.
CLEAR_SIGMAS = 3.0
# Far from zero: of a few thousand neurons some are on the wrong side at 3 of estimated errors, and
# a single one of them has a gradient of hundreds of times the noise.
FAR_SIGMAS = 6.0
# Entries of neurons far on the inactive side, in units of their noise: the largest one, and the
# root mean square. Right records: up to 10, and 0.8 to 1.7. A mixture of two records that resemble
# each other leaves few neurons on the wrong side, but those far out: 76 and more, and 12. (Smaller
# shares are measured by `mixed_in`.)
LARGEST_INACTIVE, LARGEST_INACTIVE_RMS = 30.0, 5.0
# Log10 of the probability that some half-space and some direction agree so well by accident.
CHANCE = -6.0
# Probability that so many strays are those of a right record, below which they are not.
CERTAINLY_WRONG = 1e-4


@dataclass(frozen=True, eq=False)
class Sides:
    """Neurons whose side of zero is clear, by record, and what their entries are.

    Attributes:
        inactive: Clearly inactive for the record.
        far_inactive: Still more clearly.
        active: Clearly active.
        vanishing: Whose entry of dL/dZ is within noise of zero.
        entries: Of dL/dZ, in units of their noise.
        chance: Log10 of the probability that such entries and sides agree by accident.
    """

    inactive: Bool[Tensor, "b m"]
    far_inactive: Bool[Tensor, "b m"]
    active: Bool[Tensor, "b m"]
    vanishing: Bool[Tensor, "b m"]
    entries: Float[Tensor, "b m"]
    chance: list[float]


def find_sides(
    problem: Problem,
    records: Float[Tensor, "b n"],
    gradients: Float[Tensor, "m b"],
    *,
    entry_noise: Float[Tensor, " b"],
    entry_error: Float[Tensor, " b"],
    side_error: Float[Tensor, " b"],
) -> Sides:
    """The sides that records put neurons on, and their entries.

    Args:
        problem: The layer, at the rank that stands above the noise.
        records: One a row.
        gradients: dL/dZ, one record a column.
        entry_noise: Standard error of a column's entries.
        entry_error: Standard error of an entry of each record.
        side_error: The same of a pre-activation, from what is mixed in of other records.
    """
    layer = problem.layer
    bias = 0.0 if layer.bias is None else layer.bias
    margins = applied(layer.weight, records) + bias
    own = entry_error[:, None] * row_norms(layer.weight).to(records)
    margins = margins / (own.square() + side_error[:, None].square()).sqrt()
    entries, narrow = gradients.T, entry_noise[:, None].square()
    return Sides(
        margins < -CLEAR_SIGMAS,
        margins < -FAR_SIGMAS,
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


@dataclass(frozen=True)
class Contradiction:
    """What speaks against a record by the neurons that it clearly leaves inactive.

    Attributes:
        reason: In words; empty where nothing does.
        certain: Whether no right record looks so, and others may have this one mixed into them.
    """

    reason: str = ""
    certain: bool = False


def contradiction(sides: Sides, index: int) -> Contradiction:
    """What the neurons that a record leaves inactive say against it.

    Args:
        sides: Of all records.
        index: The record's.
    """
    inactive = sides.inactive[index]
    clear = int(inactive.sum())
    wrong = int((inactive & ~sides.vanishing[index]).sum())
    silent = sides.entries[index][sides.far_inactive[index]]
    if len(silent) and (
        float(silent.max()) > LARGEST_INACTIVE
        or float(silent.square().mean().sqrt()) > LARGEST_INACTIVE_RMS
    ):
        return Contradiction(
            f"a neuron that it leaves inactive has a gradient of {float(silent.max()):.0f} times "
            "the noise, as where another record is mixed in",
            certain=True,
        )
    if wrong > allowed_strays(clear):
        return Contradiction(
            f"{wrong} of {clear} neurons that it leaves inactive have gradients above noise",
            certain=binomial_at_least(wrong, clear, LARGEST_MISMATCH) < CERTAINLY_WRONG,
        )
    return Contradiction()
