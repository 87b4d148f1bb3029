"""Proposers of candidate directions: one file each, one protocol, one line in the registry."""

from __future__ import annotations

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

__all__ = [
    "PROPOSERS",
    "DictionarySearch",
    "HalfSpaceSearch",
    "PeelingDecoder",
    "Proposals",
    "Proposer",
    "SubmatrixSampler",
]
