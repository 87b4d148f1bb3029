"""Least squares by LSMR for many right-hand sides at once, each with its own matrix if need be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """What LSMR found.

    Attributes:
        solution: One a row.
        normal_residual: Norm of :math:`A^T (b - A x)`, by row.
        iterations: How many all rows took together: those of the slowest.
        condition: Largest over smallest singular value met on the way, by row: an estimate of the
            condition number from below.
    """

    solution: Float[Tensor, "p n"]
    normal_residual: Float[Tensor, " p"]
    iterations: int
    condition: Float[Tensor, " p"]


def lsmr(
    apply: Callable[[Tensor], Tensor],
    adjoint: Callable[[Tensor], Tensor],
    right_hand_side: Float[Tensor, "p m"],
    *,
    tolerance: Float[Tensor, " p"],
    iterations: int,
    stop: Callable[[], bool] = lambda: False,
) -> LeastSquares:
    r"""Minimise :math:`\lVert A x - b \rVert`; the shortest of several solutions.

    Golub-Kahan bidiagonalisation of every row, in step: rows that are done go on without harm.

    Args:
        apply: A, from (p, n) to (p, m); row p may have its own.
        adjoint: Its transpose.
        right_hand_side: b, one a row.
        tolerance: Norm of :math:`A^T (b - A x)` at which a row is solved.
        iterations: The most that are done.
        stop: Asked now and then; true ends the iteration with what there is.

    Source:
        Fong and Saunders, "LSMR: an iterative algorithm for sparse least-squares problems",
        SIAM J. Sci. Comput. 33(5), 2011, section 2.8.

    Example:
        >>> matrix = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
        >>> lsmr(lambda x: x @ matrix.T, lambda y: y @ matrix, torch.tensor([[2.0, 8.0]]),
        ...      tolerance=torch.tensor([1e-6]), iterations=9).solution
        tensor([[1.0000, 2.0000]])
    """
    u, beta = _unit(right_hand_side)
    v, alpha = _unit(adjoint(u))
    step_direction, past, solution = v, torch.zeros_like(v), torch.zeros_like(v)
    zeta_bar, alpha_bar = alpha * beta, alpha
    rho, rho_bar, c_bar, s_bar = (torch.ones_like(alpha) for _ in range(4))
    s_bar = torch.zeros_like(s_bar)
    largest, smallest = torch.zeros_like(rho), torch.full_like(rho, torch.inf)
    done = 0
    while done < iterations and bool((zeta_bar.abs() > tolerance).any()) and not stop():
        done += 1
        u, beta = _unit(apply(v) - alpha[:, None] * u)
        v, alpha = _unit(adjoint(u) - beta[:, None] * v)
        rho_old, rho = rho, torch.hypot(alpha_bar, beta)
        c, s = _over(alpha_bar, rho), _over(beta, rho)
        theta, alpha_bar = s * alpha, c * alpha
        rho_bar_old, theta_bar = rho_bar, s_bar * rho
        scaled = c_bar * rho
        rho_bar = torch.hypot(scaled, theta)
        c_bar, s_bar = _over(scaled, rho_bar), _over(theta, rho_bar)
        # Zeros are those of rows that have ended.
        largest = torch.maximum(largest, rho_bar)
        smallest = torch.where(rho_bar > 0, torch.minimum(smallest, rho_bar), smallest)
        zeta, zeta_bar = c_bar * zeta_bar, -s_bar * zeta_bar
        past = step_direction - _over(theta_bar * rho, rho_old * rho_bar_old)[:, None] * past
        solution = solution + _over(zeta, rho * rho_bar)[:, None] * past
        step_direction = v - _over(theta, rho)[:, None] * step_direction
    return LeastSquares(solution, zeta_bar.abs(), done, largest / smallest)


def _unit(vectors: Float[Tensor, "p n"]) -> tuple[Float[Tensor, "p n"], Float[Tensor, " p"]]:
    """Unit vectors and norms; of zero, zero."""
    norms = vectors.norm(dim=1)
    return _over(vectors, norms[:, None]), norms


def _over(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient; zero over zero is zero, so that a row that ended stays where it is."""
    whole = denominator != 0
    return torch.where(whole, numerator / torch.where(whole, denominator, 1.0), 0.0)
