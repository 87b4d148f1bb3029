"""Proposers of candidate directions: one file each, one protocol, one line in the registry."""

from __future__ import annotations

from collections.abc import Callable

from gradaudit.linear.problem import Problem
from gradaudit.linear.proposers.protocol import Proposals, Proposer
from gradaudit.linear.proposers.submatrix import SubmatrixSampler

PROPOSERS: dict[str, Callable[[Problem], Proposer]] = {
    "spear": SubmatrixSampler,
}

__all__ = ["PROPOSERS", "Proposals", "Proposer", "SubmatrixSampler"]
