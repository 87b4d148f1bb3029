"""Least squares by LSMR for many right-hand sides at once, each with its own matrix if need be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from scipy.linalg import eigvalsh_tridiagonal
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """What LSMR found.

    Attributes:
        solution: One a row.
        normal_residual: Norm of :math:`A^T (b - A x)`, by row.
        iterations: How many all rows took together: those of the slowest.
        condition: Largest over smallest singular value of A that the iteration has met, by row:
            an estimate of the condition number from below.
        largest: The largest singular value met.
    """

    solution: Float[Tensor, "p n"]
    normal_residual: Float[Tensor, " p"]
    iterations: int
    condition: Float[Tensor, " p"]
    largest: Float[Tensor, " p"]


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
    u, beta = _unit(right_hand_side.clone())
    v, alpha = _unit(adjoint(u))
    direction, past, solution = v.clone(), torch.zeros_like(v), torch.zeros_like(v)
    zeta_bar, alpha_bar = alpha * beta, alpha
    rho, rho_bar, c_bar, s_bar = (torch.ones_like(alpha) for _ in range(4))
    s_bar = torch.zeros_like(s_bar)
    bidiagonal = [alpha]
    done = 0
    while done < iterations and bool((zeta_bar.abs() > tolerance).any()) and not stop():
        done += 1
        u, beta = _unit(apply(v).addcmul_(alpha[:, None], u, value=-1))
        v, alpha = _unit(adjoint(u).addcmul_(beta[:, None], v, value=-1))
        bidiagonal += [beta, alpha]
        rho_old, rho = rho, torch.hypot(alpha_bar, beta)
        c, s = _over(alpha_bar, rho), _over(beta, rho)
        theta, alpha_bar = s * alpha, c * alpha
        rho_bar_old, theta_bar = rho_bar, s_bar * rho
        scaled = c_bar * rho
        rho_bar = torch.hypot(scaled, theta)
        c_bar, s_bar = _over(scaled, rho_bar), _over(theta, rho_bar)
        zeta, zeta_bar = c_bar * zeta_bar, -s_bar * zeta_bar
        past.mul_(-_over(theta_bar * rho, rho_old * rho_bar_old)[:, None]).add_(direction)
        solution.addcmul_(_over(zeta, rho * rho_bar)[:, None], past)
        direction.mul_(-_over(theta, rho)[:, None]).add_(v)
    return LeastSquares(solution, zeta_bar.abs(), done, *_extremes(torch.stack(bidiagonal)))


def _extremes(
    bidiagonal: Float[Tensor, "i p"],
) -> tuple[Float[Tensor, " p"], Float[Tensor, " p"]]:
    """Condition and largest singular value of the bidiagonal matrix, given entry by entry."""
    alphas, betas = bidiagonal[0::2].T.cpu(), bidiagonal[1::2].T.cpu()
    if not betas.shape[1]:
        return torch.ones_like(bidiagonal[0]), bidiagonal[0]
    # The last alpha belongs to the step that was not taken.
    alphas = alphas[:, :-1]
    diagonal = (alphas.square() + betas.square()).numpy()
    beside = (alphas[:, 1:] * betas[:, :-1]).numpy()
    ends = [
        eigvalsh_tridiagonal(d, e, select="i", select_range=(i, i))[0]
        for d, e in zip(diagonal, beside, strict=True)
        for i in (0, len(d) - 1)
    ]
    smallest, largest = torch.tensor(ends, dtype=torch.float64).reshape(-1, 2).T
    # Squares lose what lies below the root of a rounding.
    least = torch.finfo(torch.float64).eps * largest
    condition = (largest / torch.maximum(smallest, least)).sqrt()
    return condition.to(bidiagonal), largest.sqrt().to(bidiagonal)


def _unit(vectors: Float[Tensor, "p n"]) -> tuple[Float[Tensor, "p n"], Float[Tensor, " p"]]:
    """Unit vectors and norms, in place; of zero, zero."""
    norms = torch.linalg.vector_norm(vectors, dim=1)
    return vectors.div_(_positive(norms)[:, None]), norms


def _over(numerator: Float[Tensor, " p"], length: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
    """The quotient; by zero it is zero, so that a row that has ended stays where it is."""
    return numerator / _positive(length)


def _positive(length: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
    # Whatever is divided by a length of zero is zero too.
    return length.clamp(min=torch.finfo(length.dtype).tiny)
