"""What every proposer promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Proposals:
    """Candidate directions from one round, the same one possibly several times.

    Attributes:
        directions: Unit vectors, right to about search precision; the pool makes them exact.
        tried: How many candidates the round went through to find them.
    """

    directions: Float[Tensor, "k b"]
    tried: int


class Proposer(Protocol):
    """Proposes directions for one problem, round by round.

    A proposer never decides: the pool verifies every direction, and certification everything
    after it. All its randomness comes from the generator it is handed.
    """

    @property
    def unit(self) -> str:
        """What `Proposals.tried` counts, in the plural, such as ``"submatrices"``."""

    def propose(
        self, generator: torch.Generator, minimum_zeros: int, *, at_most: int | None = None
    ) -> Proposals:
        """Run one round of a length that progress and budgets can be checked between.

        Args:
            generator: Of all randomness.
            minimum_zeros: Directions with fewer zeros than this are not wanted for now.
            at_most: Candidates that the budget still allows, at least 1; None for no limit.
        """
