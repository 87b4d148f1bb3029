"""SPEAR's greedy filter: which b of the candidate directions are the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.linear.basis import sparsest_basis
from gradaudit.linear.drift import AGREED_DRIFTS, SETTLED_DRIFTS, settled
from gradaudit.linear.pool import Pool
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.tolerances import RANK_RESIDUAL

# Swap candidates that the second stage considers; beyond the sparsest few hundred none is true.
LARGEST_SECOND_STAGE = 256
# Entries of the records' pre-activations, for all swaps that are scored at once.
LARGEST_STACK = 2**24


@dataclass(frozen=True)
class Selection:
    """A full-rank choice of directions and how well it matches the ReLU.

    Attributes:
        chosen: Indices into the pool.
        matching: The sparsity matching coefficient, 1 for the truth; after several steps of
            training by the neurons that it cannot have moved across their boundary.
        swaps: Swaps made by the second stage.
    """

    chosen: Int[Tensor, " b"]
    matching: float
    swaps: int


def greedy_filter(
    problem: Problem,
    pool: Pool,
    *,
    second_stage: bool = True,
    stop: Callable[[], bool] = lambda: False,
) -> Selection | None:
    r"""Choose b directions: the sparsest full-rank set, then swaps that raise the matching.

    The first stage collects directions by descending number of zeros as long as the rank grows.
    The second makes the single swap that raises the sparsity matching coefficient :math:`\sigma`
    most, until none does.

    Args:
        problem: The layer.
        pool: Candidates.
        second_stage: False stops after the first, for comparison.
        stop: Asked before each candidate's swaps, which take seconds in large batches; true ends
            with what there is.

    Returns:
        The selection, or None while the pool does not span the space.

    Source:
        SPEAR (arXiv 2403.03945), Algorithms 2 and 3, section 4.2, Definition 4.1. All swaps of one
        candidate are scored at once by rank-one updates, which is ours.
    """
    order = pool.by_sparsity()
    chosen = sparsest_basis(pool.directions[order])
    if len(chosen) < problem.batch_size:
        return None
    chosen = order[chosen]
    scorer = _Scorer(problem, pool)
    best, swaps = scorer.score(chosen), 0
    if second_stage:
        others = [i for i in order.tolist() if i not in set(chosen.tolist())]
        others = others[:LARGEST_SECOND_STAGE]
        while others and best < 1.0:
            score, position, candidate = scorer.best_swap(chosen, others, stop)
            if not score > best:
                break
            others[others.index(candidate)] = int(chosen[position])
            chosen = chosen.clone()
            chosen[position] = candidate
            best, swaps = score, swaps + 1
    if problem.activation_drift is not None:
        best = scorer.score(chosen, drifts=SETTLED_DRIFTS)
    return Selection(chosen, best, swaps)


class _Scorer:
    """Sparsity matching coefficients of whole sets and of all swaps of one candidate."""

    def __init__(self, problem: Problem, pool: Pool) -> None:
        self._pool = pool
        zero, active = problem.pattern(pool.directions)
        self._zero: Bool[Tensor, "c p"] = zero
        self._informative: Bool[Tensor, "c p"] = zero | active
        gradient = problem.layer.bias_gradient
        self._projected = None if gradient is None else problem.factors.left.T @ gradient
        maps = [problem.preactivation_map * problem.factors.values]
        if problem.activation_drift is not None:
            maps.append(problem.activation_drift)
        # As linear in a record as its pre-activations is what training changed them by.
        self._map = torch.cat(maps).T
        bias = problem.layer.bias
        self._bias = torch.zeros_like(problem.sparse_noise[:1]) if bias is None else bias
        self._nowhere_negative: Bool[Tensor, "c p"] | None = None
        if problem.setting is Setting.SPARSE_INPUT:
            # The input of a ReLU network's inner layer has one sign.
            values = pool.directions @ problem.sparse.T
            self._nowhere_negative = zero | (values * torch.sign(values.sum(1, keepdim=True)) > 0)

    def score(self, chosen: Int[Tensor, " b"], *, drifts: float = AGREED_DRIFTS) -> float:
        linear, scales = self._of_records(chosen)
        stacked = None if scales is None else scales[None]
        scores = self._matching(linear[None], stacked, chosen, drifts)
        return float(torch.nan_to_num(scores, nan=0.0)[0])

    def best_swap(
        self, chosen: Int[Tensor, " b"], others: list[int], stop: Callable[[], bool]
    ) -> tuple[float, int, int]:
        """The best score over all swaps, the position it replaces, and the candidate."""
        size = len(chosen)
        linear, scales = self._of_records(chosen)
        inverse = torch.linalg.inv_ex(self._pool.directions[chosen].T)[0]
        positions = torch.arange(size, device=chosen.device)
        blocks = torch.split(positions, max(1, LARGEST_STACK // linear.numel()))
        best = (-1.0, 0, 0)
        for candidate in others:
            if stop():
                break
            # Q' = Q with column i replaced by q has rows r_l - p_l r_i / p_i and r_i / p_i; so
            # has everything that is linear in them.
            weights = inverse @ self._pool.directions[candidate]
            pivots = torch.where(weights.abs() > RANK_RESIDUAL, weights, torch.nan)
            factors = weights[None, :] / pivots[:, None]
            factors.diagonal().copy_(1 - 1 / pivots)
            sets = chosen.expand(size, size).clone()
            sets.diagonal().fill_(candidate)
            scores = torch.cat(
                [
                    self._matching(
                        linear - factors[block, :, None] * linear[block, None, :],
                        None if scales is None else scales - factors[block] * scales[block, None],
                        sets[block],
                    )
                    for block in blocks
                ]
            )
            scores = torch.nan_to_num(scores, nan=-1.0)
            position = int(scores.argmax())
            if float(scores[position]) > best[0]:
                best = (float(scores[position]), position, candidate)
        return best

    def _of_records(
        self, chosen: Int[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b m"], Float[Tensor, " b"] | None]:
        """W V S p of every row p of the inverse, and the records' scales where they are known.

        After several steps followed by the drift of each.
        """
        inverse = torch.linalg.inv_ex(self._pool.directions[chosen].T)[0]
        return inverse @ self._map, None if self._projected is None else inverse @ self._projected

    def _matching(
        self,
        linear: Float[Tensor, "s b d"],
        scales: Float[Tensor, "s b"] | None,
        sets: Int[Tensor, "*s b"],
        drifts: float = AGREED_DRIFTS,
    ) -> Float[Tensor, " s"]:
        """Definition 4.1 for a stack of sets, on the informative entries that are settled.

        Sets are compared by all neurons on which both ends of several steps agree: where few are
        beyond doubt, these fit wrong sets too, and of the others few contradict the right one.
        """
        zero = self._zero[sets].reshape(len(linear), -1, self._zero.shape[1])
        informative = self._informative[sets].reshape(zero.shape)
        if self._nowhere_negative is not None:
            agree = self._nowhere_negative[sets].reshape(zero.shape)
        else:
            linear, *drift = torch.split(linear, zero.shape[-1], dim=-1)
            before = self._preactivations(linear, scales)
            agree = self._gradient_agreement(before, scales, zero)
            if drift:
                moved = drift[0] if scales is None else drift[0] / scales[..., None]
                informative &= settled(before, moved, drifts=drifts)
        count = informative.sum((1, 2)).clamp(min=1)
        score = (agree & informative).sum((1, 2)) / count
        return torch.where(torch.isfinite(linear).all(-1).all(-1), score, torch.nan)

    def _preactivations(
        self, linear: Float[Tensor, "s b m"], scales: Float[Tensor, "s b"] | None
    ) -> Float[Tensor, "s b m"]:
        """Up to a factor, and without the bias, where there are no scales."""
        return linear if scales is None else linear / scales[..., None] + self._bias

    def _gradient_agreement(
        self,
        before: Float[Tensor, "s b m"],
        scales: Float[Tensor, "s b"] | None,
        zero: Bool[Tensor, "s b m"],
    ) -> Bool[Tensor, "s b m"]:
        agree = (before > 0) != zero
        if scales is not None:
            return agree
        # Without a bias gradient the sign of each record is free: the better one counts.
        better = 2 * agree.sum(-1, keepdim=True) >= zero.shape[-1]
        return torch.where(better, agree, ~agree)
