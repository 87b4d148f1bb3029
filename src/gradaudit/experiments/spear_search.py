"""SPEAR as its paper has it, without what this project adds: submatrices and the greedy filter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.linear.disaggregate import disaggregate
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.pool import Pool
from gradaudit.linear.problem import Problem, Setting, build_problem
from gradaudit.linear.proposers.submatrix import SubmatrixSampler
from gradaudit.linear.select import Selection, greedy_filter
from gradaudit.linear.sparsity import SparsityFilter
from gradaudit.update import Update


@dataclass(frozen=True, eq=False)
class Choice:
    """What the greedy filter makes of the candidates so far.

    Attributes:
        submatrices: Sampled so far.
        candidates: Directions that passed the sparsity filter.
        first_stage: Records of the sparsest full-rank set.
        second_stage: Records after the swaps.
        matching: Sparsity matching coefficient after the swaps; 1 ends the search.
        swaps: How many there were.
    """

    submatrices: int
    candidates: int
    first_stage: Float[Tensor, "b n"] | None
    second_stage: Float[Tensor, "b n"] | None
    matching: float
    swaps: int


def first_layer(update: Update, generator: torch.Generator) -> Problem:
    """The search's view of the first layer, whose activation gradient the ReLU makes sparse."""
    layer = next(iter(update.linear_layers()))
    factors = factor_gradient(layer.weight_gradient, generator=generator)
    return build_problem(layer, factors, Setting.SPARSE_GRADIENT)


def search(problem: Problem, generator: torch.Generator, control: Control) -> Iterator[Choice]:
    """Sample until the matching coefficient is 1 or the budget is used up.

    Unlike the audit, it solves for no direction, repairs none, and lets mixtures of records into
    the pool that a half-space test would keep out.

    Args:
        problem: The layer.
        generator: Of the submatrices.
        control: Budget and interruption.

    Yields:
        The choice after every round that brought a new candidate and a full-rank set.

    Source:
        SPEAR (arXiv 2403.03945), Algorithms 1 and 2.
    """
    sampler = SubmatrixSampler(problem)
    sparsity = SparsityFilter(problem)
    pool = Pool(problem, half_space_test=False)
    tried = 0
    while control.stop_reason(tried) is None:
        limit = control.budget.submatrices
        proposals = sampler.propose(
            generator, sparsity.minimum_zeros, at_most=None if limit is None else limit - tried
        )
        tried += proposals.tried
        new = pool.add(proposals.directions, max(sparsity.minimum_zeros, problem.zeros_needed + 1))
        sparsity.observe(proposals.tried, new)
        control.report("submatrices", tried=tried, found=len(pool), wanted=problem.batch_size)
        if not new or len(pool) < problem.batch_size:
            continue
        first = greedy_filter(problem, pool, second_stage=False)
        second = greedy_filter(problem, pool)
        if first is None or second is None:
            continue
        yield Choice(
            tried,
            len(pool),
            _records(problem, pool, first),
            _records(problem, pool, second),
            second.matching,
            second.swaps,
        )
        if second.matching >= 1.0:
            return


def _records(problem: Problem, pool: Pool, selection: Selection) -> Float[Tensor, "b n"] | None:
    batch = disaggregate(problem, pool.directions[selection.chosen])
    return None if batch is None else batch.records
