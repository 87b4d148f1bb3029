"""Proposers of candidate directions: one file each, one protocol, one line in the registry."""

from __future__ import annotations

from gradaudit.linear.proposers.halfspace import HalfSpaceSearch
from gradaudit.linear.proposers.protocol import Proposals, Proposer
from gradaudit.linear.proposers.submatrix import SubmatrixSampler

PROPOSERS: dict[str, type[HalfSpaceSearch] | type[SubmatrixSampler]] = {
    "halfspace": HalfSpaceSearch,
    "spear": SubmatrixSampler,
}

__all__ = ["PROPOSERS", "HalfSpaceSearch", "Proposals", "Proposer", "SubmatrixSampler"]
