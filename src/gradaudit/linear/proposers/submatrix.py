"""SPEAR's proposer: kernels of random row subsets, screened for sparsity."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.linear.kernels import bordered_kernels, near_zeros, screen_tolerance
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.proposers.protocol import Proposals

# Submatrices per round; the paper's own batch size. Rounds begin small and double up to it, since
# a small batch is complete after a few dozen submatrices.
ROUND = 10_000
FIRST_ROUND = 256
# Submatrices at once; larger blocks fall out of a core's cache and run at half the speed.
BLOCK = 2_048
# Factorising thousands of small matrices is so many times slower than one large product.
SMALL_MATRICES = 8.0
# With more rows than this, a candidate is first screened on a random part of them.
SCREEN_ROWS = 160


class SubmatrixSampler:
    r"""Samples b - 1 rows at a time and proposes the vector that vanishes on them.

    If the rows happen to be inactive for exactly one record, the kernel of the (b - 1) x b
    submatrix is that record's direction (SPEAR, Theorem 3.4); its product with *all* rows then
    vanishes on about half of them, where a wrong one vanishes on the b - 1 sampled rows only.

    Args:
        problem: The layer.
        round_size: Submatrices per call of `propose`.
        dtype: Of the search; float32 suffices, the pool works in float64.

    Source:
        SPEAR (arXiv 2403.03945), Algorithm 1, lines 3 to 7. LU instead of SVD, and the two-step
        screen, are ours.
    """

    unit = "submatrices"
    by_sparsity = True
    needs_bias_gradient = False
    settings = (Setting.SPARSE_GRADIENT, Setting.SPARSE_INPUT)
    joins_after = 0.0

    def __init__(
        self, problem: Problem, *, round_size: int = ROUND, dtype: torch.dtype = torch.float32
    ) -> None:
        self._rows = problem.unit_rows.to(dtype).contiguous()
        self._largest_round = round_size
        self._round_size = min(FIRST_ROUND, round_size)
        self._tolerance = screen_tolerance(problem)

    def propose(
        self,
        generator: torch.Generator,
        minimum_zeros: int,
        *,
        found: Float[Tensor, "f b"] | None = None,
        at_most: int | None = None,
    ) -> Proposals:
        """Try one round of submatrices.

        Args:
            generator: On the rows' device.
            minimum_zeros: Entries of the product with all rows that must nearly vanish.
            found: Not used: submatrices are drawn blindly.
            at_most: Submatrices that the budget still allows; None for no limit.

        Returns:
            The kernels that pass the screen.
        """
        wanted = self._round_size if at_most is None else min(self._round_size, at_most)
        if len(self._rows) < max(minimum_zeros, self._rows.shape[1] - 1):
            # No direction can have so many zeros; nothing is left to try.
            return Proposals(self._rows[:0].clone(), wanted, self._cost(wanted))
        passed = []
        done = 0
        while done < wanted:
            block = min(BLOCK, wanted - done)
            kernels = self._kernels(block, generator)
            passed.append(self._screen(kernels, minimum_zeros, generator))
            done += block
        self._round_size = min(2 * self._round_size, self._largest_round)
        return Proposals(torch.cat(passed), done, self._cost(done))

    def _cost(self, submatrices: int) -> float:
        size = self._rows.shape[1]
        screened = min(len(self._rows), SCREEN_ROWS)
        return SMALL_MATRICES * submatrices * (size**3 + 2.0 * size * screened)

    def _kernels(self, count: int, generator: torch.Generator) -> Float[Tensor, "k b"]:
        rows, size = self._rows, self._rows.shape[1]
        chosen = sample_subsets(count, len(rows), size - 1, generator)
        return bordered_kernels(rows[chosen], generator)

    def _screen(
        self, kernels: Float[Tensor, "k b"], minimum_zeros: int, generator: torch.Generator
    ) -> Float[Tensor, "j b"]:
        rows = self._rows
        if len(rows) > SCREEN_ROWS:
            part = torch.randperm(len(rows), generator=generator, device=rows.device)[:SCREEN_ROWS]
            # Four standard deviations below the threshold's share, so that next to none is lost.
            share = minimum_zeros * SCREEN_ROWS / len(rows)
            zeros = near_zeros(kernels, rows[part], self._tolerance)
            kernels = kernels[zeros >= max(share - 4 * share**0.5, 1)]
        return kernels[near_zeros(kernels, rows, self._tolerance) >= minimum_zeros]


def sample_subsets(
    count: int, population: int, size: int, generator: torch.Generator
) -> Int[Tensor, "k s"]:
    """Draw uniformly random subsets of equal size, without replacement within each.

    Floyd's algorithm, one vectorised step an element: cheaper than sorting random keys as soon as
    the population is larger than a few times the subset.

    Args:
        count: Subsets.
        population: Elements are 0 to ``population - 1``.
        size: Of each subset, at most ``population``.
        generator: Its device is the result's.

    Example:
        >>> subsets = sample_subsets(4, 10, 3, torch.Generator().manual_seed(0))
        >>> [len(set(row)) for row in subsets.tolist()]
        [3, 3, 3, 3]
    """
    device = generator.device
    chosen = torch.empty(count, size, dtype=torch.int64, device=device)
    for step in range(size):
        last = population - size + step
        drawn = torch.randint(last + 1, (count,), generator=generator, device=device)
        taken = (chosen[:, :step] == drawn[:, None]).any(1)
        chosen[:, step] = torch.where(taken, last, drawn)
    return chosen
