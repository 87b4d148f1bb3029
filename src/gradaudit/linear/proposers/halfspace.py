"""The half-space search: directions found with the weights, not only with the gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.linear.basis import sparsest_basis
from gradaudit.linear.moment import iterate, judge
from gradaudit.linear.pace import STARTS, Pace
from gradaudit.linear.pairs import record_link, record_rows
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.proposers.protocol import Proposals
from gradaudit.linear.sharpen import sharpen

# Starts that are iterated together; more at once would leave the cache.
BLOCK = 600
# Candidates that agree more than this are one; the best-ranked stands for them.
SAME = 0.8
# The same for a direction that was found before.
KNOWN = 0.9
# The same after sharpening, in float32.
REPEATED = 1 - 1e-5
# With so few directions missing, random half-spaces in what the others leave overlap theirs well
# enough to start from, and find records that the moment does not see.
FEW_MISSING, HALF_SPACES = 16, 64


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a round of starts ended in, in whitened coordinates.

    Attributes:
        directions: Unit vectors, each from one start or several.
        sides: Their half-spaces: positive where a live neuron looks active.
        features: Whitened coordinates of half-spaces, for the live rows.
        link: From a direction to the half-space of its record.
        known: The directions known before.
        starts: That ran.
        cost: Floating-point operations so far.
    """

    directions: Float[Tensor, "k b"]
    sides: Float[Tensor, "k l"]
    features: Float[Tensor, "l d"]
    link: Float[Tensor, "d b"]
    known: Float[Tensor, "f b"]
    starts: int
    cost: float


class HalfSpaceSearch:
    r"""Ties each direction to the half-space of neurons that its record activates.

    A record's direction q and its row p of :math:`Q^{-1}` belong together: :math:`u_i \cdot q`
    vanishes unless :math:`a_i \cdot p > 0`, with :math:`u_i` the rows of U and :math:`a_i` the
    rows of the activation map. The third moment of (a, u, u) is diagonal in the true pairs up to
    sampling noise, and needs far fewer neurons than the fourth moment of u alone. And p follows
    from q, roughly, without any half-space (`pairs.record_link`), which halves what is unknown.
    From starts at rows of U, whitened, and at their sums and differences, `moment.iterate` moves q
    and p in turns, all starts at once; the candidates are ranked, thinned out, and sharpened by
    expectation-maximisation.

    Directions found before narrow the search on both sides: every other p is orthogonal to them,
    exactly, and every other q to their records' rows, nearly (`pairs.record_rows`).

    Args:
        problem: A layer in the sparse-gradient setting.
        starts: In the first round.
        dtype: Of the search.
        steer: Whether zeros are clear enough for `pairs.record_rows`; under noise they are not.

    Source:
        Ours.
    """

    unit = "starts"
    by_sparsity = False
    needs_bias_gradient = False
    settings = (Setting.SPARSE_GRADIENT,)
    joins_after = 0.0

    def __init__(
        self,
        problem: Problem,
        *,
        starts: int = STARTS,
        dtype: torch.dtype = torch.float32,
        steer: bool = True,
    ) -> None:
        if problem.setting not in self.settings:
            raise ValueError(f"the half-space search does not search a {problem.setting.value}")
        self._problem = problem
        self._dtype = dtype
        self._steer = steer
        self._pace = Pace(problem.batch_size, starts)
        # Rows of equal norm: a neuron that fires for many records weighs no more than another.
        basis, self._triangle = torch.linalg.qr(problem.unit_rows)
        self._rows = (basis * len(basis) ** 0.5).to(dtype)
        self._activation = problem.activation_map[problem.live]

    def propose(
        self,
        generator: torch.Generator,
        minimum_zeros: int,
        *,
        found: Float[Tensor, "f b"] | None = None,
        at_most: int | None = None,
    ) -> Proposals:
        """Run one round of starts.

        Args:
            generator: On the rows' device.
            minimum_zeros: Not used: the half-space test takes its place.
            found: Directions already in the pool.
            at_most: Starts that the budget still allows.
        """
        seen = self.candidates(generator, found=found, at_most=at_most)
        if not len(seen.directions):
            return Proposals(self._problem.unit_rows[:0], seen.starts, seen.cost)
        annealing = self._pace.effort.annealing
        sharp = sharpen(
            self._rows,
            seen.features,
            seen.directions,
            seen.sides,
            zeros=self._problem.zeros_needed,
            link=seen.link,
            annealing=annealing,
        )
        # Several starts end in one direction; twins of near-duplicate records differ by more.
        unranked = sharp.new_zeros(len(sharp))
        sharp = sharp[_distinct(sharp, unranked, seen.known, REPEATED, REPEATED)]
        return Proposals(
            self.from_whitened(sharp),
            seen.starts,
            seen.cost + self._cost(0, len(seen.directions) * annealing.rounds),
        )

    def candidates(
        self,
        generator: torch.Generator,
        *,
        found: Float[Tensor, "f b"] | None = None,
        at_most: int | None = None,
    ) -> Candidates:
        """Run one round of starts, and stop short of sharpening what they ended in.

        Args:
            generator: On the rows' device.
            found: Directions already known.
            at_most: Starts that the budget still allows.
        """
        found = self._problem.unit_rows[:0] if found is None else found
        count = self._pace.starts_after(len(found))
        count = count if at_most is None else min(count, at_most)
        if len(self._rows) <= self._problem.zeros_needed:
            return self._nothing(count)
        known = found[sparsest_basis(found)] if len(found) else found
        features = self._features(known)
        if features.shape[1] == 0:
            return self._nothing(count)
        whitened = torch.nn.functional.normalize(known @ self._triangle.T, dim=1).to(self._dtype)
        away = self._away_from(known)
        starts = torch.split(self._starting_points(count, generator), BLOCK)
        link = record_link(self._problem, features, self._triangle)
        effort = self._pace.effort
        current = torch.cat(
            [
                iterate(self._rows, features, link, block, effort.phases, away_from=away)
                for block in starts
            ]
        )
        sides, score = judge(self._rows, features, link, current, effort.phases[-1].tie)
        chosen = _distinct(current, score, whitened, SAME, KNOWN)[: self._pace.sharpened]
        current, sides = current[chosen], sides[chosen]
        if features.shape[1] <= FEW_MISSING:
            more, their_sides = self._from_half_spaces(features, generator)
            current, sides = torch.cat([current, more]), torch.cat([sides, their_sides])
        cost = self._cost(count * effort.iterations, 0)
        return Candidates(current, sides, features, link, whitened, count, cost)

    def _nothing(self, starts: int) -> Candidates:
        none = self._rows[:0]
        sides = none.new_zeros(0, len(self._rows))
        return Candidates(none, sides, self._rows[:, :0], none, none, starts, self._cost(starts, 0))

    def from_whitened(self, directions: Float[Tensor, "k b"]) -> Float[Tensor, "k b"]:
        """Unit directions, from the coordinates in which the live rows are whitened."""
        back = torch.linalg.solve_triangular(
            self._triangle, directions.T.to(self._triangle), upper=True
        ).T
        return torch.nn.functional.normalize(back, dim=1)

    def to_whitened(self, link: Float[Tensor, "d b"]) -> Float[Tensor, "d b"]:
        """The same map, from directions that are not whitened."""
        return link.to(self._triangle) @ self._triangle

    def _cost(self, iterations: int, rounds: int) -> float:
        """Four products an iteration and as much again for the exponentials; twenty a round."""
        size = float(len(self._rows) * self._rows.shape[1])
        return iterations * 16.0 * size + rounds * 60.0 * size

    def _features(self, known: Float[Tensor, "f b"]) -> Float[Tensor, "l d"]:
        """The activation map, less what the known directions fix, whitened."""
        size = self._problem.batch_size
        left = torch.linalg.svd(known, full_matrices=True)[2][len(known) :]
        narrowed = self._activation[:, :size] @ left.T
        basis = torch.linalg.qr(torch.cat([narrowed, self._activation[:, size:]], dim=1)).Q
        return (basis * len(basis) ** 0.5).to(self._dtype)

    def _away_from(self, known: Float[Tensor, "f b"]) -> Float[Tensor, "b s"]:
        """Whitened, what every direction but the known ones is nearly orthogonal to."""
        steered = known if self._steer else known[:0]
        records = record_rows(self._problem, steered) if len(steered) else steered
        whitened = torch.linalg.solve_triangular(self._triangle.T, records.T, upper=False)
        return torch.linalg.qr(whitened).Q.to(self._dtype)

    def _starting_points(self, count: int, generator: torch.Generator) -> Float[Tensor, "k b"]:
        """Rows, and sums and differences of two rows."""
        device, rows = self._rows.device, len(self._rows)
        first = torch.randint(rows, (count,), generator=generator, device=device)
        other = torch.randint(1, rows, (count,), generator=generator, device=device)
        second = (first + other) % rows
        sign = torch.randint(-1, 2, (count, 1), generator=generator, device=device)
        return self._rows[first] + sign * self._rows[second]

    def _from_half_spaces(
        self, features: Float[Tensor, "l d"], generator: torch.Generator
    ) -> tuple[Float[Tensor, "k b"], Float[Tensor, "k l"]]:
        """Random half-spaces, and for each the direction that is smallest on its inactive side."""
        normals = torch.randn(
            HALF_SPACES,
            features.shape[1],
            generator=generator,
            device=features.device,
            dtype=features.dtype,
        )
        sides = torch.nn.functional.normalize(normals, dim=1) @ features.T
        inactive = (sides < 0).to(self._rows)
        gram = (self._rows.T[None] * inactive[:, None, :]) @ self._rows
        return torch.linalg.eigh(gram.to(torch.float64))[1][:, :, 0].to(self._rows), sides


def _distinct(
    current: Float[Tensor, "k b"],
    score: Float[Tensor, " k"],
    known: Float[Tensor, "f b"],
    same_above: float,
    known_above: float,
) -> Int[Tensor, " c"]:
    """The candidates that are neither known nor each other's repeats, the best-ranked first."""
    unknown = torch.ones_like(score, dtype=torch.bool)
    if len(known):
        unknown = (current @ known.T).abs().amax(1) <= known_above
    # One choice decides about the next: on a GPU every step would wait for the device.
    alike = ((current @ current.T).abs() > same_above).cpu().numpy()
    fresh = unknown.cpu().numpy()
    chosen: list[int] = []
    for candidate in score.argsort(descending=True, stable=True).tolist():
        if fresh[candidate]:
            chosen.append(candidate)
            fresh &= ~alike[candidate]
    return torch.tensor(chosen, dtype=torch.int64, device=current.device)
