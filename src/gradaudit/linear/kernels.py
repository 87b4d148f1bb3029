"""Kernels of many sets of b - 1 rows at once, and which of them vanish on more rows than those."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.linear.problem import Problem

# Relative size below which an entry counts as near zero while screening in float32: a kernel of a
# submatrix with condition number 1e3 is right to about 1e-4.
SCREEN_TOLERANCE = 1e-3


def screen_tolerance(problem: Problem, smallest: float = SCREEN_TOLERANCE) -> float:
    """How large an entry of a unit row times a unit vector may be in a screen.

    Noise in the rows makes a true direction's zeros that much less sharp.

    Args:
        problem: The layer.
        smallest: What the search's own precision asks for.
    """
    noise = problem.zero_tolerance(
        torch.eye(problem.batch_size, dtype=problem.sparse.dtype, device=problem.sparse.device)
    )
    relative = (noise[:, problem.live] / problem.sparse[problem.live].norm(dim=1)).median()
    return float(torch.clamp(relative * 10, smallest, 30 * SCREEN_TOLERANCE))


def near_zeros(
    directions: Float[Tensor, "k b"], rows: Float[Tensor, "l b"], tolerance: float
) -> Int[Tensor, " k"]:
    """How many rows each direction nearly annihilates.

    Args:
        directions: Unit vectors.
        rows: Of unit norm.
        tolerance: Largest entry that counts; see `screen_tolerance`.

    Example:
        >>> near_zeros(torch.tensor([[1.0, 0.0]]), torch.eye(2), 1e-3).tolist()
        [1]
    """
    return ((directions @ rows.T).abs() < tolerance).sum(1)


def bordered_kernels(
    chosen: Float[Tensor, "k c b"], generator: torch.Generator
) -> Float[Tensor, "k b"]:
    r"""A vector of the kernel of each matrix of b - 1 rows, or nan where the rows are dependent.

    One LU factorisation each: bordered by a random row r, the system
    :math:`\binom{A}{r} q = e_b` has the kernel as its solution and is as well conditioned as the
    rows allow.

    Args:
        chosen: Of unit rows, b - 1 a matrix.
        generator: Of the border, on the rows' device.

    Returns:
        Unit vectors.

    Example:
        >>> rows = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]])
        >>> kernel = bordered_kernels(rows, torch.Generator().manual_seed(0))
        >>> [round(abs(entry), 4) for entry in kernel[0].tolist()]
        [0.0, 0.7071, 0.7071]
    """
    count, _, size = chosen.shape
    border = torch.randn(1, 1, size, generator=generator, dtype=chosen.dtype, device=chosen.device)
    bordered = torch.cat([chosen, border.expand(count, 1, size)], dim=1)
    right = chosen.new_zeros(size, 1)
    right[-1] = 1
    factored, pivots, _ = torch.linalg.lu_factor_ex(bordered)
    solution = torch.linalg.lu_solve(factored, pivots, right.expand(count, size, 1))[..., 0]
    # A singular matrix gives inf or nan; so does its norm, and no comparison accepts it.
    return solution / solution.norm(dim=1, keepdim=True)
