"""SPEAR++'s proposer: descent on the sphere towards directions whose product with L is sparse."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.kernels import (
    SCREEN_TOLERANCE,
    bordered_kernels,
    near_zeros,
    screen_tolerance,
)
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.proposers.protocol import Proposals
from gradaudit.linear.proposers.submatrix import SMALL_MATRICES, sample_subsets
from gradaudit.linear.sphere import ProjectedGradient, RiemannianAdam, cosine_rates, descend
from gradaudit.linear.surrogates import SURROGATES

OPTIMIZERS: dict[str, type[RiemannianAdam] | type[ProjectedGradient]] = {
    "radam": RiemannianAdam,
    "pgd": ProjectedGradient,
}
# Where the paper is silent, what found the most distinct directions per arithmetic on CIFAR-10
# at (b, m) = (20, 200), (32, 200) and (65, 1000), among rates of 0.03 to 3 and 200 to 1000 steps.
RATES = {"radam": 0.3, "pgd": 1.0}
# The last rate, relative to the first: zeros are then sharp enough for the screen.
LAST_RATE = 1e-3
STEPS = 200
STARTS = 256
# Rounding: rows with the smallest entries, in batch sizes, and subsets of them for each candidate.
ROUNDING_ROWS = 2
ROUNDINGS = 8
# Rows that are near zero before rounding stay so without being zeros; a kernel in float64 of
# condition number 1e6 is right to 1e-9.
ROUNDED_TOLERANCE = 1e-7
# Candidates of a round that agree more than this, as descents that end together do, are one.
REPEATED = 1 - 1e-6
# Elementwise work on an entry of L q in one step, beside its two products.
ELEMENTWISE = 16.0


class DictionarySearch:
    r"""Learns the columns of Q as a dictionary in which the gradient's rows are sparse.

    From random starts, all at once,

    .. math:: \min_{\lVert q \rVert = 1} \sum_i h\big((L q)_i\big)

    for a surrogate h of "is not zero". Minima with more zeros than a kernel has for free are
    proposed. A smooth surrogate's minima are only near the sparse directions: then subsets of the
    rows with the smallest entries are drawn, and their kernels are the candidates.

    Without ``preconditioned`` L is the paper's :math:`U S^{1/2}`, whose singular values draw nearly
    all starts to a few directions. With it, L is an orthonormal basis of the rows of U at unit
    norm, as is usual in dictionary learning; its zeros are the same.

    Args:
        problem: The layer.
        surrogate: ``"l1"``, ``"log_cosh"`` or ``"l4"``.
        optimizer: ``"radam"`` (Riemannian Adam) or ``"pgd"`` (projected gradient).
        preconditioned: Whether to whiten L.
        avoid_known: Whether starts are orthogonal to the directions found before, so that the
            rarer ones get their turn; the descent is free to return.
        starts: Per round.
        steps: Of the optimiser.
        rate: The first learning rate, None for the optimiser's own; falls along half a cosine.
        dtype: Of the descent; the rest is float64.

    Raises:
        KeyError: The surrogate or the optimiser has another name.

    Source:
        SPEAR++ (arXiv 2510.24200): surrogates, optimisers, rounding by sampling. The paper keeps
        a rounding where b rows have a kernel of one dimension; ours takes the kernel of b - 1 and
        asks that it vanish on more rows than `Problem.zeros_needed`, which implies the former.
        Preconditioning, orthogonal starts, schedule and step counts are ours.
    """

    unit = "descents"
    # A start is worth thousands of submatrices, which is what that filter and its budget count.
    by_sparsity = False
    needs_bias_gradient = False
    settings = (Setting.SPARSE_GRADIENT, Setting.SPARSE_INPUT)
    # Seldom the quicker one. A round of half-space starts is 5e5, and as much for sharpening.
    joins_after = 1.3e7

    def __init__(
        self,
        problem: Problem,
        *,
        surrogate: str = "l1",
        optimizer: str = "radam",
        preconditioned: bool = True,
        avoid_known: bool = True,
        starts: int = STARTS,
        steps: int = STEPS,
        rate: float | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._problem = problem
        self._surrogate = SURROGATES[surrogate]
        self._optimizer = OPTIMIZERS[optimizer]
        self._avoid_known = avoid_known
        self._starts = starts
        first = RATES[optimizer] if rate is None else rate
        self._rates = cosine_rates(first, LAST_RATE * first, steps)
        factor, self._triangle = _factor(problem, preconditioned)
        # Entries of root mean square 1 at a random point: widths and rates then mean the same
        # for every layer.
        self._factor = (factor * (factor.numel() ** 0.5 / factor.norm())).to(dtype)
        rounds = self._surrogate.needs_rounding
        self._tolerance = screen_tolerance(
            problem, ROUNDED_TOLERANCE if rounds else SCREEN_TOLERANCE
        )

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
            minimum_zeros: Not used: its threshold is relaxed by counting submatrices.
            found: Directions already in the pool.
            at_most: Starts that the budget still allows.

        Returns:
            The minima, or the best of their roundings, that vanish on enough rows.
        """
        count = self._starts if at_most is None else min(self._starts, at_most)
        rows = self._problem.unit_rows
        if len(rows) <= self._problem.zeros_needed:
            # No direction can have enough zeros.
            return Proposals(rows[:0], count, self._cost(count))
        known = rows[:0] if found is None else found
        points = descend(
            self._starting_points(count, known, generator),
            lambda q: self._surrogate.derivative(q @ self._factor.T) @ self._factor / len(rows),
            self._optimizer(),
            self._rates,
        )
        # In float64: the triangle's condition number is that of near-duplicate records.
        wide = points.T.to(self._triangle)
        directions = torch.linalg.solve_triangular(self._triangle, wide, upper=True).T
        directions = torch.nn.functional.normalize(directions, dim=1)
        if self._surrogate.needs_rounding:
            directions = self._rounded(directions, generator)
        zeros = near_zeros(directions, rows, self._tolerance)
        sparse = directions[zeros > self._problem.zeros_needed]
        alike = (sparse @ sparse.T).abs() > REPEATED
        first = ~alike.tril(-1).any(1)
        return Proposals(sparse[first], count, self._cost(count))

    def _starting_points(
        self, count: int, known: Float[Tensor, "f b"], generator: torch.Generator
    ) -> Float[Tensor, "k b"]:
        """Uniform on the sphere, or on its part that is orthogonal to what is known."""
        factor, size = self._factor, self._factor.shape[1]
        points = torch.randn(
            count, size, generator=generator, dtype=factor.dtype, device=factor.device
        )
        if self._avoid_known and 0 < len(known) < size:
            span = torch.linalg.qr(self._triangle @ known.T).Q.to(factor)
            points = points - (points @ span) @ span.T
        return torch.nn.functional.normalize(points, dim=1)

    def _rounded(
        self, directions: Float[Tensor, "k b"], generator: torch.Generator
    ) -> Float[Tensor, "k b"]:
        """For each direction the sparsest kernel of b - 1 of the rows that it nearly annihilates.

        Rows that are inactive for two records have mixtures of the two as their kernels, with
        half of a true direction's zeros: many enough, but not the most.
        """
        rows, size = self._problem.unit_rows, self._problem.batch_size
        nearest = (directions @ rows.T).abs().argsort(dim=1)[:, : ROUNDING_ROWS * size]
        nearest = nearest.repeat_interleave(ROUNDINGS, dim=0)
        drawn = sample_subsets(len(nearest), nearest.shape[1], size - 1, generator)
        kernels = bordered_kernels(rows[nearest.gather(1, drawn)], generator)
        zeros = near_zeros(kernels, rows, self._tolerance).reshape(-1, ROUNDINGS)
        return kernels.reshape(*zeros.shape, size)[
            torch.arange(len(zeros), device=zeros.device), zeros.argmax(1)
        ]

    def _cost(self, starts: int) -> float:
        """Two products a step, the elementwise work, and the roundings' factorisations."""
        length, size = self._factor.shape
        cost = starts * len(self._rates) * float(length) * (4.0 * size + ELEMENTWISE)
        if self._surrogate.needs_rounding:
            rounding = SMALL_MATRICES * size**3 + 2.0 * size * length
            cost += starts * ROUNDINGS * rounding
        return cost


def _factor(
    problem: Problem, preconditioned: bool
) -> tuple[Float[Tensor, "l b"], Float[Tensor, "b b"]]:
    """L, and the triangle R that takes its coordinates back: the direction of q is R^-1 q."""
    if preconditioned:
        factor, triangle = torch.linalg.qr(problem.unit_rows)
        return factor, triangle
    roots = problem.factors.values.sqrt()
    return problem.sparse[problem.live] * roots, torch.diag(1 / roots)
