"""SPEAR's greedy filter: which b of the candidate directions are the batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.linear.basis import sparsest_basis
from gradaudit.linear.pool import Pool
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.tolerances import RANK_RESIDUAL

# Swap candidates that the second stage considers; beyond the sparsest few hundred none is true.
LARGEST_SECOND_STAGE = 256


@dataclass(frozen=True)
class Selection:
    """A full-rank choice of directions and how well it matches the ReLU.

    Attributes:
        chosen: Indices into the pool.
        matching: The sparsity matching coefficient, 1 for the truth.
        swaps: Swaps made by the second stage.
    """

    chosen: Int[Tensor, " b"]
    matching: float
    swaps: int


def greedy_filter(problem: Problem, pool: Pool, *, second_stage: bool = True) -> Selection | None:
    r"""Choose b directions: the sparsest full-rank set, then swaps that raise the matching.

    The first stage collects directions by descending number of zeros as long as the rank grows.
    The second makes the single swap that raises the sparsity matching coefficient :math:`\sigma`
    most, until none does.

    Args:
        problem: The layer.
        pool: Candidates.
        second_stage: False stops after the first, for comparison.

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
            score, position, candidate = scorer.best_swap(chosen, others)
            if not score > best:
                break
            others[others.index(candidate)] = int(chosen[position])
            chosen = chosen.clone()
            chosen[position] = candidate
            best, swaps = score, swaps + 1
    return Selection(chosen, best, swaps)


class _Scorer:
    """Sparsity matching coefficients of whole sets and of all swaps of one candidate."""

    def __init__(self, problem: Problem, pool: Pool) -> None:
        self._problem = problem
        self._pool = pool
        zero, active = problem.pattern(pool.directions)
        self._zero: Bool[Tensor, "c p"] = zero
        self._informative: Bool[Tensor, "c p"] = zero | active
        gradient = problem.layer.bias_gradient
        self._projected = None if gradient is None else problem.factors.left.T @ gradient
        self._map = (problem.preactivation_map * problem.factors.values).T
        bias = problem.layer.bias
        self._bias = torch.zeros_like(problem.sparse_noise[:1]) if bias is None else bias

    def score(self, chosen: Int[Tensor, " b"]) -> float:
        inverse = torch.linalg.inv_ex(self._pool.directions[chosen].T)[0]
        return float(torch.nan_to_num(self._matching(inverse[None], chosen), nan=0.0)[0])

    def best_swap(self, chosen: Int[Tensor, " b"], others: list[int]) -> tuple[float, int, int]:
        """The best score over all swaps, the position it replaces, and the candidate."""
        size = len(chosen)
        inverse = torch.linalg.inv_ex(self._pool.directions[chosen].T)[0]
        best = (-1.0, 0, 0)
        for candidate in others:
            # Q' = Q with column i replaced by q has rows r_l - p_l r_i / p_i and r_i / p_i.
            weights = inverse @ self._pool.directions[candidate]
            pivots = torch.where(weights.abs() > RANK_RESIDUAL, weights, torch.nan)
            factors = weights[None, :] / pivots[:, None]
            factors.diagonal().copy_(1 - 1 / pivots)
            swapped = inverse[None] - factors[:, :, None] * inverse[:, None, :]
            sets = chosen.expand(size, size).clone()
            sets.diagonal().fill_(candidate)
            scores = torch.nan_to_num(self._matching(swapped, sets), nan=-1.0)
            position = int(scores.argmax())
            if float(scores[position]) > best[0]:
                best = (float(scores[position]), position, candidate)
        return best

    def _matching(
        self, inverses: Float[Tensor, "s b b"], sets: Int[Tensor, "*s b"]
    ) -> Float[Tensor, " s"]:
        """Definition 4.1 for a stack of inverses of Q, on the informative entries."""
        zero = self._zero[sets].reshape(len(inverses), -1, self._zero.shape[1])
        informative = self._informative[sets].reshape(zero.shape)
        if self._problem.setting is Setting.SPARSE_INPUT:
            agree = self._input_agreement(sets, zero)
        else:
            agree = self._gradient_agreement(inverses, zero)
        count = informative.sum((1, 2)).clamp(min=1)
        score = (agree & informative).sum((1, 2)) / count
        finite = torch.isfinite(inverses).all(-1).all(-1)
        return torch.where(finite, score, torch.nan)

    def _gradient_agreement(
        self, inverses: Float[Tensor, "s b b"], zero: Bool[Tensor, "s b p"]
    ) -> Bool[Tensor, "s b p"]:
        linear = inverses @ self._map
        if self._projected is not None:
            positive = linear / (inverses @ self._projected)[..., None] + self._bias > 0
            return positive != zero
        # Without a bias gradient the sign of each record is free: the better one counts.
        agree = (linear > 0) != zero
        better = 2 * agree.sum(-1, keepdim=True) >= zero.shape[-1]
        return torch.where(better, agree, ~agree)

    def _input_agreement(
        self, sets: Int[Tensor, "*s b"], zero: Bool[Tensor, "s b p"]
    ) -> Bool[Tensor, "s b p"]:
        """The input of a ReLU network's inner layer is nowhere negative."""
        values = (self._pool.directions[sets] @ self._problem.sparse.T).reshape(zero.shape)
        sign = torch.sign(values.sum(-1, keepdim=True))
        return zero | (values * sign > 0)
