"""Proposers of candidate directions: one file each, one protocol, one line in the registry."""

from __future__ import annotations

from collections.abc import Iterable

from gradaudit.linear.problem import Problem
from gradaudit.linear.proposers.dictionary import DictionarySearch
from gradaudit.linear.proposers.halfspace import HalfSpaceSearch
from gradaudit.linear.proposers.peeling import PeelingDecoder
from gradaudit.linear.proposers.protocol import Proposals, Proposer
from gradaudit.linear.proposers.submatrix import SubmatrixSampler

PROPOSERS: dict[
    str,
    type[DictionarySearch] | type[HalfSpaceSearch] | type[PeelingDecoder] | type[SubmatrixSampler],
] = {
    "halfspace": HalfSpaceSearch,
    "peeling": PeelingDecoder,
    "spear": SubmatrixSampler,
    "spear++": DictionarySearch,
}


def suited(names: Iterable[str], problem: Problem) -> tuple[str, ...]:
    """Those of the proposers that can search the problem, in the order given.

    Args:
        names: Of the registry.
        problem: The layer.
    """
    # A bias without its gradient has a column of its own in the map.
    whole = problem.activation_map.shape[1] == problem.batch_size
    return tuple(
        name
        for name in names
        if problem.setting in PROPOSERS[name].settings
        and (whole or not PROPOSERS[name].needs_bias_gradient)
    )


__all__ = [
    "PROPOSERS",
    "DictionarySearch",
    "HalfSpaceSearch",
    "PeelingDecoder",
    "Proposals",
    "Proposer",
    "SubmatrixSampler",
    "suited",
]
