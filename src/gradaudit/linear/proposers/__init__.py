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
    return tuple(name for name in names if PROPOSERS[name].suits(problem))


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
