"""SPEAR++ with a chosen surrogate and optimiser: descents, the pool and the greedy filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.experiments.spear_client import Client, compared_with
from gradaudit.experiments.spear_search import first_layer
from gradaudit.linear.disaggregate import disaggregate
from gradaudit.linear.pool import Pool
from gradaudit.linear.problem import Problem
from gradaudit.linear.proposers import DictionarySearch
from gradaudit.linear.select import greedy_filter


@dataclass(frozen=True, eq=False)
class Learned:
    """What a search came back with.

    Attributes:
        descents: Random starts that were followed to their end.
        directions: Candidates in the pool.
        records: Of the whole batch, or None where the candidates do not span it.
        consistent: Whether every zero of the batch agrees with the activations: a matching
            coefficient of 1, which ends the search.
    """

    descents: int
    directions: int
    records: Float[Tensor, "b n"] | None
    consistent: bool


def learn(
    problem: Problem, search: DictionarySearch, generator: torch.Generator, control: Control
) -> Learned:
    """Descend from random starts until a batch is consistent or the time is used up.

    Unlike the audit, it solves for no direction and repairs none.

    Args:
        problem: The layer.
        search: With its surrogate and optimiser.
        generator: Of the starts.
        control: Budget and interruption.

    Source:
        SPEAR++ (arXiv 2510.24200); the greedy filter is SPEAR's.
    """
    pool = Pool(problem)
    descents, selection = 0, None
    while control.stop_reason() is None and (selection is None or selection.matching < 1.0):
        proposals = search.propose(generator, 0, found=pool.directions)
        descents += proposals.tried
        new = pool.add(proposals.directions, problem.zeros_needed + 1)
        control.report("descents", tried=descents, found=len(pool), wanted=problem.batch_size)
        if new and len(pool) >= problem.batch_size:
            selection = greedy_filter(problem, pool)
    batch = None if selection is None else disaggregate(problem, pool.directions[selection.chosen])
    return Learned(
        descents,
        len(pool),
        None if batch is None else batch.records,
        selection is not None and selection.matching >= 1.0,
    )


def learned(client: Client, control: Control, **options: Any) -> dict[str, Any]:
    """The columns of a row: one client, one search of its first layer, compared with the truth.

    Args:
        client: Whose update is searched.
        control: Budget and interruption.
        options: Of `DictionarySearch`.
    """
    _, update, truth = client.observe()
    generator = torch.Generator().manual_seed(client.seed)
    problem = first_layer(update, generator)
    found = learn(problem, DictionarySearch(problem, **options), generator, control)
    row: dict[str, Any] = {
        "exact": False,
        "directions": found.directions,
        "descents": found.descents,
        "consistent": found.consistent,
        "psnr": None,
        "search_seconds": round(control.elapsed_seconds, 2),
    }
    if found.records is None:
        return row
    compared = compared_with(found.records, truth)
    return row | {
        "exact": compared.exact_batch and not compared.unmatched_truth,
        "psnr": compared.mean_psnr,
    }
