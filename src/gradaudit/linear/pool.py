"""The directions found so far: exact, distinct, and significantly sparse."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.linear.basis import sparsest_basis
from gradaudit.linear.half_space import plausible
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.refine import exact_directions, purify
from gradaudit.linear.tolerances import CHANCE_LOG10, DUPLICATE_COSINE
from gradaudit.theory import log10_separable_by_chance

# Agreement at which an approximate direction may be taken for one already in the pool ...
APPROXIMATE_DUPLICATE = 1e-6
# ... once that one was hit so often. Near-duplicate records have directions just as close, and
# each repeat that is made exact has an even chance of being the twin.
EXACT_REPEATS = 12
# Agreement from which on two directions may be one but for the gradient's noise.
NOISY_DUPLICATE = 1e-3
# A proposal this close to a refused mixture is that mixture.
REFUSED_COSINE = 1e-10
# More candidates than this help nobody: true ones are the sparsest.
LARGEST_POOL = 4096


class Pool:
    r"""Candidate directions C of SPEAR's Algorithm 1.

    A direction enters when, made exact, it vanishes on at least the rows asked for, and on more
    than any kernel does for free.

    Args:
        problem: The layer.
        half_space_test: Whether a direction must also pass `plausible`, which the paper's filter
            did not have. Without it mixtures of few records flood the pool as soon as records
            are correlated.
    """

    def __init__(self, problem: Problem, *, half_space_test: bool = True) -> None:
        self._problem = problem
        self._half_space_test = half_space_test
        self._refused: Float[Tensor, "r b"] = problem.sparse.new_zeros(0, problem.batch_size)
        self.directions: Float[Tensor, "c b"] = problem.sparse.new_zeros(0, problem.batch_size)
        self.zeros: Int[Tensor, " c"] = self.directions.new_zeros(0, dtype=torch.int64)
        self.hits: Int[Tensor, " c"] = self.zeros.clone()
        self.trusted: Bool[Tensor, " c"] = self.zeros.to(torch.bool)
        self.rejected = 0

    def __len__(self) -> int:
        return len(self.directions)

    def add(self, proposals: Float[Tensor, "k b"], minimum_zeros: int) -> int:
        """Verify proposals and keep the new ones.

        Args:
            proposals: Unit vectors in search precision.
            minimum_zeros: The sparsity filter's current threshold.

        Returns:
            How many were new.
        """
        if not len(proposals):
            return 0
        sharp = purify(self._problem, proposals.to(self.directions), minimum_zeros)
        sharp = self._unfamiliar(sharp)
        exact = exact_directions(self._problem, sharp, minimum_zeros)
        self.rejected += len(sharp) - len(exact)
        fresh, hits = self._count_repeats(exact)
        passed = self._half_space_test_of(fresh)
        room = max(0, LARGEST_POOL - len(self))
        accepted = torch.nonzero(passed)[:room, 0]
        self._append(fresh[accepted], hits[accepted])
        self.rejected += len(fresh) - len(accepted)
        return len(accepted)

    def by_sparsity(self) -> Int[Tensor, " c"]:
        """Indices by number of zeros, descending, the trusted ones first."""
        order = self.zeros + self.trusted * (int(self._problem.sparse.shape[0]) + 1)
        return torch.argsort(order, descending=True, stable=True)

    def basis(self) -> Float[Tensor, "r b"]:
        """Independent directions among the trusted ones, the sparsest."""
        order = self.by_sparsity()
        trusted = self.directions[order[self.trusted[order]]]
        return trusted[sparsest_basis(trusted)] if len(trusted) else trusted

    def _unfamiliar(self, proposals: Float[Tensor, "k b"]) -> Float[Tensor, "j b"]:
        """Count repeats of directions that were hit often enough, and return the others."""
        if len(self) and len(proposals):
            nearest, distance = _distances(self.directions, proposals)
            repeats = (distance <= APPROXIMATE_DUPLICATE) & (self.hits[nearest] >= EXACT_REPEATS)
            self.hits += torch.bincount(nearest[repeats], minlength=len(self))
            proposals = proposals[~repeats]
        if len(self._refused) and len(proposals):
            # The same mixtures come back again and again, and their test is the dearest step.
            _, distance = _distances(self._refused, proposals)
            proposals = proposals[distance > REFUSED_COSINE]
        return proposals

    def _count_repeats(
        self, exact: Float[Tensor, "k b"]
    ) -> tuple[Float[Tensor, "j b"], Int[Tensor, " j"]]:
        """Count repeats of directions in the pool; the others once, and how often each came."""
        if len(self) and len(exact):
            nearest, distance = _distances(self.directions, exact)
            known = self._same(self.directions[nearest], exact, distance)
            self.hits += torch.bincount(nearest[known], minlength=len(self))
            exact = exact[~known]
        hits: list[int] = []
        fresh = exact[:0]
        while len(exact):
            nearest, distance = _distances(exact[:1], exact)
            same = self._same(exact[:1][nearest], exact, distance)
            fresh = torch.cat([fresh, exact[:1]])
            hits.append(int(same.sum()))
            exact = exact[~same]
        return fresh, self.hits.new_tensor(hits)

    def _same(
        self,
        first: Float[Tensor, "k b"],
        other: Float[Tensor, "k b"],
        distance: Float[Tensor, " k"],
    ) -> Bool[Tensor, " k"]:
        """Whether pairs are one direction: to rounding, or as far as the gradient's noise tells.

        Noise leads different proposals for one direction to places that differ by more than
        rounding. No entry of theirs does by more than may pass for zero.
        """
        same = distance <= DUPLICATE_COSINE
        close = torch.nonzero(~same & (distance <= NOISY_DUPLICATE))[:, 0]
        if len(close):
            one, two = first[close], other[close]
            sign = torch.sign((one * two).sum(1, keepdim=True))
            apart = ((one * sign - two) @ self._problem.sparse.T).abs()
            same[close] = (apart <= self._problem.zero_tolerance(two)).all(1)
        return same

    def _half_space_test_of(self, exact: Float[Tensor, "k b"]) -> Bool[Tensor, " k"]:
        if not self._half_space_test:
            return torch.ones(len(exact), dtype=torch.bool, device=exact.device)
        passed = plausible(self._problem, exact)
        self._refused = torch.cat([self._refused, exact[~passed]])[-LARGEST_POOL:]
        return passed

    def _append(self, directions: Float[Tensor, "k b"], hits: Int[Tensor, " k"]) -> None:
        vanishing, active = (mask.sum(1) for mask in self._problem.pattern(directions))
        trusted = [
            self._half_space_says_something(*counts)
            for counts in zip(vanishing.tolist(), active.tolist(), strict=True)
        ]
        self.directions = torch.cat([self.directions, directions])
        self.zeros = torch.cat([self.zeros, vanishing])
        self.hits = torch.cat([self.hits, hits])
        self.trusted = torch.cat([self.trusted, self.trusted.new_tensor(trusted)])

    def _half_space_says_something(self, inactive: int, active: int) -> bool:
        """Whether passing the half-space test is more than chance.

        The difference of two nearly equal records is active at a few neurons only, and a few
        points can be cut off by some hyperplane whatever they are.
        """
        if not self._half_space_test or self._problem.setting is Setting.SPARSE_INPUT:
            return True
        chance = log10_separable_by_chance(
            inactive + active, self._problem.batch_size + 1, min(inactive, active)
        )
        return chance <= CHANCE_LOG10


def _distances(
    directions: Float[Tensor, "c b"], others: Float[Tensor, "k b"]
) -> tuple[Int[Tensor, " k"], Float[Tensor, " k"]]:
    """For each of the others the nearest direction, either sign, and 1 - |cos| to it."""
    cosines = others @ directions.T
    nearest = cosines.abs().argmax(1)
    sign = torch.sign(cosines.gather(1, nearest[:, None]))
    # 1 - |cos| of unit vectors would lose half the digits; the chord does not.
    return nearest, (directions[nearest] * sign - others).square().sum(1) / 2
