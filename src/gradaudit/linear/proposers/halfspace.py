"""The half-space search: directions found with the weights, not only with the gradient."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.linear.basis import sparsest_basis
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.proposers.protocol import Proposals
from gradaudit.linear.sharpen import Annealing, sharpen

# Starts in the first round. Twice as many in the next one, up to the limit, when a round brings
# less than this part of what is missing; half as many when it brings more.
STARTS = 300
# Where few are missing so many starts will do, and this many for each.
FEWEST_STARTS, STARTS_EACH = 100, 6
LARGEST_STARTS = 4_800
GOOD_SHARE = 0.1
# Iterations of a round as short as the first, and of a longer one: near the limit, where few
# starts arrive, they also arrive late.
ITERATIONS, LATE_ITERATIONS = 100, 150
# A block ends early when so many of its starts have all but come to rest since the last look.
SETTLED, SETTLED_SHARE, SETTLED_EVERY = 1 - 1e-4, 0.9, 20
# Starts that are iterated together; more at once would leave the cache.
BLOCK = 600
# Weight of the sparsity contrast beside the half-space one.
CONTRAST = 2.0
# Subnormal numbers are a hundred times slower; in float32 they begin at exp(-87).
LARGEST_EXPONENT = 80.0
# Candidates that agree more than this are one; the best-ranked stands for them.
SAME = 0.8
# The same for a direction that was found before.
KNOWN = 0.9
# The same after sharpening, in float32.
REPEATED = 1 - 1e-5
# Candidates sharpened in a round as short as the first, the best-ranked first; more in longer ones,
# in proportion, up to the limit, and slowly.
SHARPENED, LARGEST_SHARPENED = 64, 256
SLOWLY = Annealing(rounds=80, first_spread=1.0, spread_factor=0.95)
# With so few directions missing, random half-spaces in what the others leave overlap theirs well
# enough to start from, and find records that the moment does not see.
FEW_MISSING = 16


class HalfSpaceSearch:
    r"""Ties each direction to the half-space of neurons that its record activates.

    A record's direction q and its row p of :math:`Q^{-1}` belong together: :math:`u_i \cdot q`
    vanishes unless :math:`a_i \cdot p > 0`, with :math:`u_i` the rows of U and :math:`a_i` the
    rows of the activation map. The third moment of (a, u, u) is diagonal in the true pairs up to
    sampling noise, and needs far fewer neurons than the fourth moment of u alone. With rows
    whitened (U~, A~), from starts q at rows of U~ and at their sums and differences, all at once:

    .. math::
        y &= \tilde U q, \qquad s = -e^{-y^2/2} - \operatorname{mean}, \qquad
        p = \tilde A^T s / \lVert \cdot \rVert, \qquad z = \tilde A p \\
        q &\leftarrow \tilde U^T (\operatorname{sign}(z)\, y) / m
            + \alpha\, [\operatorname{mean}((1 - y^2) e^{-y^2/2})\, q
            - \tilde U^T (y e^{-y^2/2}) / m] + q / 2, \text{ normalised}

    Directions found before narrow the search: every other p is orthogonal to them, so that A~
    loses a dimension for each. Candidates are ranked by
    :math:`\operatorname{mean}(\operatorname{sign}(z)\, y^2 + 2 e^{-y^2/2} - 4 |y|)`, thinned out,
    and sharpened by expectation-maximisation.

    Args:
        problem: A layer in the sparse-gradient setting.
        starts: In the first round.
        dtype: Of the search.

    Source:
        Ours. The left contrast is FastICA's.
    """

    unit = "starts"
    by_sparsity = False
    needs_bias_gradient = False
    settings = (Setting.SPARSE_GRADIENT,)
    joins_after = 0.0

    def __init__(
        self, problem: Problem, *, starts: int = STARTS, dtype: torch.dtype = torch.float32
    ) -> None:
        if problem.setting not in self.settings:
            raise ValueError(f"the half-space search does not search a {problem.setting.value}")
        self._problem = problem
        self._dtype = dtype
        self._starts = starts
        self._found: int | None = None
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
        found = self._problem.unit_rows[:0] if found is None else found
        self._adapt(len(found))
        count = self._starts
        if count <= STARTS:
            missing = self._problem.batch_size - len(found)
            count = min(count, max(FEWEST_STARTS, STARTS_EACH * missing))
        count = count if at_most is None else min(count, at_most)
        none = self._problem.unit_rows[:0]
        if len(self._rows) <= self._problem.zeros_needed:
            return Proposals(none, count, self._cost(count, 0))
        known = found[sparsest_basis(found)] if len(found) else found
        features = self._features(known)
        if features.shape[1] == 0:
            return Proposals(none, count, self._cost(count, 0))
        known = torch.nn.functional.normalize(known @ self._triangle.T, dim=1).to(self._dtype)
        starts = torch.split(self._starting_points(count, known, generator), BLOCK)
        iterations = ITERATIONS if self._starts <= STARTS else LATE_ITERATIONS
        current = torch.cat([self._iterate(block, features, iterations) for block in starts])
        sides, score = self._judge(current, features)
        most = min(SHARPENED * max(1, count // STARTS), LARGEST_SHARPENED)
        chosen = _distinct(current, score, known, SAME, KNOWN)[:most]
        current, sides = current[chosen], sides[chosen]
        if features.shape[1] <= FEW_MISSING:
            more, their_sides = self._from_half_spaces(features, generator)
            current, sides = torch.cat([current, more]), torch.cat([sides, their_sides])
        annealing = Annealing() if self._starts <= STARTS else SLOWLY
        sharp = sharpen(
            self._rows,
            features,
            current,
            sides,
            zeros=self._problem.zeros_needed,
            annealing=annealing,
        )
        # Several starts end in one direction; twins of near-duplicate records differ by more.
        unranked = sharp.new_zeros(len(sharp))
        sharp = sharp[_distinct(sharp, unranked, known, REPEATED, REPEATED)].to(self._triangle)
        # Back from whitened coordinates.
        directions = torch.linalg.solve_triangular(self._triangle, sharp.T, upper=True).T
        directions = torch.nn.functional.normalize(directions, dim=1)
        return Proposals(
            directions,
            count,
            self._cost(count * iterations, len(current) * annealing.rounds),
        )

    def _adapt(self, found: int) -> None:
        """More starts where they bring little, and fewer where they bring much."""
        if self._found is not None:
            missing = self._problem.batch_size - self._found
            if found - self._found < GOOD_SHARE * missing:
                self._starts = min(2 * self._starts, LARGEST_STARTS)
            else:
                self._starts = max(self._starts // 2, STARTS)
        self._found = found

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

    def _starting_points(
        self, count: int, known: Float[Tensor, "f b"], generator: torch.Generator
    ) -> Float[Tensor, "k b"]:
        """Rows, and sums and differences of two rows, outside the span of what is known."""
        device, rows = self._rows.device, len(self._rows)
        first = torch.randint(rows, (count,), generator=generator, device=device)
        other = torch.randint(1, rows, (count,), generator=generator, device=device)
        second = (first + other) % rows
        sign = torch.randint(-1, 2, (count, 1), generator=generator, device=device)
        points = self._rows[first] + sign * self._rows[second]
        if len(known):
            span = torch.linalg.qr(known.T).Q
            points = points - (points @ span) @ span.T
        return torch.nn.functional.normalize(points, dim=1)

    def _from_half_spaces(
        self, features: Float[Tensor, "l d"], generator: torch.Generator
    ) -> tuple[Float[Tensor, "k b"], Float[Tensor, "k l"]]:
        """Random half-spaces, and for each the direction that is smallest on its inactive side."""
        normals = torch.randn(
            SHARPENED,
            features.shape[1],
            generator=generator,
            device=features.device,
            dtype=features.dtype,
        )
        sides = torch.nn.functional.normalize(normals, dim=1) @ features.T
        inactive = (sides < 0).to(self._rows)
        gram = (self._rows.T[None] * inactive[:, None, :]) @ self._rows
        return torch.linalg.eigh(gram.to(torch.float64))[1][:, :, 0].to(self._rows), sides

    def _iterate(
        self, current: Float[Tensor, "k b"], features: Float[Tensor, "l d"], iterations: int
    ) -> Float[Tensor, "k b"]:
        rows, scale = self._rows, 1.0 / len(self._rows)
        before = current
        for count in range(iterations):
            if count % SETTLED_EVERY == 0 and count:
                still = (current * before).sum(1) > SETTLED
                if float(still.to(rows).mean()) > SETTLED_SHARE:
                    break
                before = current
            entries = current @ rows.T
            bell = _bell(entries)
            side = torch.sign(_half_space(bell, features))
            contrast = ((1 - entries.square()) * bell).mean(1, keepdim=True) * current
            step = ((side - CONTRAST * bell) * entries) @ rows * scale
            current = torch.nn.functional.normalize(step + CONTRAST * contrast + current / 2, dim=1)
        return current

    def _judge(
        self, current: Float[Tensor, "k b"], features: Float[Tensor, "l d"]
    ) -> tuple[Float[Tensor, "k l"], Float[Tensor, " k"]]:
        """Each candidate's half-space, and how good the pair is."""
        entries = current @ self._rows.T
        bell = _bell(entries)
        sides = _half_space(bell, features)
        active_energy = (torch.sign(sides) * entries.square()).mean(1)
        return sides, active_energy + 2 * bell.mean(1) - 4 * entries.abs().mean(1)


def _bell(entries: Float[Tensor, "k l"]) -> Float[Tensor, "k l"]:
    """exp(-y^2 / 2), but never so small that arithmetic on it is slow."""
    return torch.exp(-(entries.square() / 2).clamp(max=LARGEST_EXPONENT))


def _half_space(bell: Float[Tensor, "k l"], features: Float[Tensor, "l d"]) -> Tensor:
    """The half-space whose neurons have the largest entries: large where the bell is small."""
    pattern = bell.mean(1, keepdim=True) - bell
    return torch.nn.functional.normalize(pattern @ features, dim=1) @ features.T


def _distinct(
    current: Float[Tensor, "k b"],
    score: Float[Tensor, " k"],
    known: Float[Tensor, "f b"],
    same_above: float,
    known_above: float,
) -> Int[Tensor, " c"]:
    """The candidates that are neither known nor each other's repeats, the best-ranked first."""
    fresh = torch.ones_like(score, dtype=torch.bool)
    if len(known):
        fresh = (current @ known.T).abs().amax(1) <= known_above
    alike = (current @ current.T).abs() > same_above
    chosen: list[int] = []
    for candidate in score.argsort(descending=True, stable=True).tolist():
        if bool(fresh[candidate]):
            chosen.append(candidate)
            fresh &= ~alike[candidate]
    return torch.tensor(chosen, dtype=torch.int64, device=current.device)
