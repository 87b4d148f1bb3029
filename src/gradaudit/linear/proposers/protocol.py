"""What every proposer promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.problem import Setting


@dataclass(frozen=True, eq=False)
class Proposals:
    """Candidate directions from one round, the same one possibly several times.

    Attributes:
        directions: Unit vectors, right to about search precision; the pool makes them exact.
        tried: How many candidates the round went through to find them.
        cost: About how much arithmetic that took, in floating-point operations at the speed of
            large matrix products. Proposers that work together share by it, and not by the clock,
            so that the same seed gives the same search.
        exhausted: Whether further rounds find nothing new until somebody else does.
    """

    directions: Float[Tensor, "k b"]
    tried: int
    cost: float
    exhausted: bool = False


@runtime_checkable
class Proposer(Protocol):
    """Proposes directions for one problem, round by round.

    A proposer never decides: the pool verifies every direction, and certification everything
    after it. All its randomness comes from the generator it is handed.
    """

    @property
    def unit(self) -> str:
        """What `Proposals.tried` counts, in the plural, such as ``"submatrices"``."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings it can search."""

    @property
    def by_sparsity(self) -> bool:
        """Whether the sparsity filter's threshold applies to what it proposes."""

    @property
    def joins_after(self) -> float:
        """How much arithmetic, as `Proposals.cost`, the others do before it joins them.

        For each entry of the sparse factor.
        """

    @property
    def needs_bias_gradient(self) -> bool:
        """Whether a layer with a bias must come with the gradient of the bias."""

    def propose(
        self,
        generator: torch.Generator,
        minimum_zeros: int,
        *,
        found: Float[Tensor, "f b"] | None = None,
        at_most: int | None = None,
    ) -> Proposals:
        """Run one round of a length that progress and budgets can be checked between.

        Args:
            generator: Of all randomness.
            minimum_zeros: Directions with fewer zeros than this are not wanted for now.
            found: Directions that are in the pool already, for those who can use them.
            at_most: Candidates that the budget still allows, at least 1; None for no limit.
        """
