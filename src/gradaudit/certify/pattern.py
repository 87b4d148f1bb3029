"""Where a record's share of the gradient vanishes, and where its activations say that it must."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.certify.determined import determined_often, determined_once
from gradaudit.linear.blocks import applied, row_norms
from gradaudit.linear.drift import AGREED_DRIFTS, SETTLED_DRIFTS, settled
from gradaudit.linear.half_space import plausible
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.tolerances import (
    ACTIVE_TOLERANCES,
    CHANCE_LOG10,
    FLOAT64_EPS,
    SIGN_RELATIVE,
    SIGN_SIGMAS,
    ZERO_ROUNDINGS,
)
from gradaudit.theory import log10_separable_by_chance
from gradaudit.theory.counts import poisson_allowed

# Probability at which more tiny-but-active entries than expected count as a contradiction.
SOFT_MISMATCH_RATE = 1e-6
# Probability at which more active entries than these vanish by accident and not by a mixture.
ACCIDENT_RATE = 1e-3


@dataclass(frozen=True, eq=False)
class PatternEvidence:
    """Measurements on the sparse column of each record.

    Attributes:
        zeros: Informative entries that vanish.
        clear: Which entries have a sign that the records predict beyond doubt, in every step.
        agreed: How many have one by the weights before and after several steps of training.
        strays: How many of those contradict it: they may have been elsewhere in between.
        hard: Of those, active although predicted inactive (or negative inputs): impossible.
        soft: Of those, vanishing although predicted active: tiny, or structurally zero.
        soft_allowed: How many soft ones the zero tolerance itself explains.
        determined: Whether the zeros fit no other direction.
    """

    zeros: Int[Tensor, " r"]
    clear: Bool[Tensor, "r p"]
    agreed: Int[Tensor, " r"]
    strays: Int[Tensor, " r"]
    hard: Int[Tensor, " r"]
    soft: Int[Tensor, " r"]
    soft_allowed: tuple[int, ...]
    determined: Bool[Tensor, " r"]

    @property
    def judged(self) -> Int[Tensor, " r"]:
        """Per record, number of clear entries."""
        return self.clear.sum(1)

    def mismatches(self, j: int) -> int:
        """Entries of a record's column that contradict its activations."""
        return int(self.hard[j]) + max(int(self.soft[j]) - self.soft_allowed[j], 0)

    def _log10_chance(self, j: int, dimension: int) -> float:
        """Of the pattern, by the clear entries alone or by all agreed ones but the strays."""
        agreed, strays = int(self.agreed[j]), int(self.strays[j])
        chosen = math.log10(sum(math.comb(agreed, k) for k in range(strays + 1)))
        return min(
            log10_separable_by_chance(int(self.judged[j]), dimension),
            log10_separable_by_chance(agreed, dimension) + chosen,
        )

    def objection(self, problem: Problem, j: int) -> str:
        """Why a record's column does not speak for it; empty when it does."""
        zeros, judged = int(self.zeros[j]), int(self.judged[j])
        by_gradient = problem.setting is Setting.SPARSE_GRADIENT
        dimension = problem.batch_size + 1 if by_gradient else 1
        if zeros <= problem.zeros_needed:
            return (
                f"Its column vanishes in {zeros} entries; more than {problem.zeros_needed} needed."
            )
        wrong = self.mismatches(j)
        if wrong:
            what = (
                "neurons contradict the activation it predicts"
                if by_gradient
                else ("entries are negative")
            )
            return f"{wrong} of {judged} {what}."
        if self._log10_chance(j, dimension) > CHANCE_LOG10:
            return f"Only {judged} entries judge it, too few to exclude chance."
        if not bool(self.determined[j]):
            return "Its zeros fit a mixture with another record as well."
        return ""


def examine_pattern(
    problem: Problem,
    directions: Float[Tensor, "r b"],
    records: Float[Tensor, "r n"],
    error: Float[Tensor, " r"],
    *,
    scale_identified: bool,
    condition: float,
) -> PatternEvidence:
    """Compare the zeros of each record's column with the neurons that the record leaves inactive.

    Args:
        problem: The layer.
        directions: Unit vectors, one a record.
        records: In the same order.
        error: Root mean square error of an entry of each record.
        scale_identified: Whether the records' scale is meant to be right.
        condition: Of the system that the directions were solved from; how much float64 arithmetic
            adds to their error.
    """
    by_gradient = problem.setting is Setting.SPARSE_GRADIENT
    tolerance = problem.zero_tolerance(directions) + (
        ZERO_ROUNDINGS * FLOAT64_EPS * condition * problem.sparse.norm(dim=1)
    )
    values = directions @ problem.sparse.T
    informative = problem.informative(directions) & problem.live
    if by_gradient and problem.batch_size == 1:
        # A single record's silent neurons are exact zeros, whatever their noise.
        informative |= problem.sparse[:, 0] == 0
    small = (values.abs() <= tolerance) & informative
    active = informative & (values.abs() > ACTIVE_TOLERANCES * tolerance)
    certain, agreed = torch.ones_like(small), torch.ones_like(small)
    if by_gradient:
        predicted, clear, certain, agreed = _predicted_activity(problem, records, error)
        if not scale_identified and problem.layer.bias is not None:
            predicted, clear = _separability(problem, directions, active)
        clear &= informative
    else:
        # The layer's inputs themselves, which a ReLU left: nowhere negative.
        predicted, clear = values > 0, active
    agreed, clear = clear & agreed, clear & certain
    against = torch.where(predicted, small, active)
    hard, soft = active & clear & ~predicted, small & clear & predicted
    expected = small & ~predicted if by_gradient else small
    chance = _chance_zeros(values, tolerance, active).cpu().numpy()
    return PatternEvidence(
        zeros=small.sum(1),
        clear=clear,
        agreed=agreed.sum(1),
        strays=(agreed & against).sum(1),
        hard=hard.sum(1),
        soft=soft.sum(1),
        soft_allowed=tuple(poisson_allowed(SOFT_MISMATCH_RATE, chance).tolist()),
        determined=_determined(problem, directions, expected & certain, expected & agreed, chance),
    )


def _predicted_activity(
    problem: Problem, records: Float[Tensor, "r n"], error: Float[Tensor, " r"]
) -> tuple[Bool[Tensor, "r m"], Bool[Tensor, "r m"], Bool[Tensor, "r m"], Bool[Tensor, "r m"]]:
    """Which neurons W x + bias activates; of which the sign is beyond doubt, settled, agreed."""
    layer = problem.layer
    before = applied(layer.weight, records)
    drift = applied(layer.weight_gradient, records) / 2 if layer.several_steps else None
    if layer.bias is not None:
        before = before + layer.bias
    if drift is not None and layer.bias is not None and layer.bias_gradient is not None:
        drift = drift + layer.bias_gradient / 2
    doubt = SIGN_SIGMAS * error[:, None] * row_norms(layer.weight).to(error)
    doubt = doubt + SIGN_RELATIVE * before.square().mean(1, keepdim=True).sqrt()
    certain, agreed = (settled(before, drift, drifts=k) for k in (SETTLED_DRIFTS, AGREED_DRIFTS))
    return before > 0, before.abs() > doubt, certain, agreed


def _separability(
    problem: Problem, directions: Float[Tensor, "r b"], active: Bool[Tensor, "r m"]
) -> tuple[Bool[Tensor, "r m"], Bool[Tensor, "r m"]]:
    """In place of a prediction, where the record's scale against the bias is unknown.

    A support that some record could have is predicted as it is; one that none could have, as its
    opposite.
    """
    fits = plausible(problem, directions)[:, None]
    return torch.where(fits, active, ~active), torch.ones_like(active)


def _chance_zeros(
    values: Float[Tensor, "r p"], tolerance: Float[Tensor, "r p"], active: Bool[Tensor, "r p"]
) -> Float[Tensor, " r"]:
    """Expected number of active entries that are too small to be told from zero."""
    count = active.sum(1).clamp(min=1)
    scale = ((values * active).square().sum(1) / count).sqrt()
    # A Gaussian's density at zero; twice, since the small ones are missing from the scale.
    expected = 2 * 0.8 * (tolerance * active).sum(1) / scale
    return torch.nan_to_num(expected, nan=0.0, posinf=torch.inf).minimum(active.sum(1))


def _determined(
    problem: Problem,
    directions: Float[Tensor, "r b"],
    certain: Bool[Tensor, "r p"],
    agreed: Bool[Tensor, "r p"],
    chance: npt.NDArray[np.float64],
) -> Bool[Tensor, " r"]:
    """Whether the zeros that a record's pattern explains fit its direction alone.

    After several steps, by neurons that are settled; or by those on which both ends of the training
    agree, so many times over that accident is excluded: records active at neurons that the mixture
    of them leaves inactive can be mixed so that it vanishes there.
    """
    determined = determined_once(problem, directions, certain)
    open_ = torch.nonzero(~determined)[:, 0]
    if problem.layer.several_steps and len(open_):
        accidents = int(poisson_allowed(ACCIDENT_RATE, chance[open_.cpu()].max())[0])
        determined[open_] = determined_often(
            problem, directions[open_], agreed[open_], times=2 + accidents
        )
    return determined
