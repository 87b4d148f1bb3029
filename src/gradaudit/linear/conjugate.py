"""Conjugate gradients for many small systems that share one large matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def conjugate_gradient(
    apply: Callable[[Tensor], Tensor], right: Float[Tensor, "k b"], *, steps: int
) -> Float[Tensor, "k b"]:
    r"""Solve :math:`A_i x_i = r_i` for every i approximately, from zero.

    Systems of the form :math:`A_i = U^T D_i U` with one U and a diagonal of their own are applied
    by two products with U for all of them at once, where a factorisation each would cost
    b / steps times as much.

    Args:
        apply: Maps the rows x_i to the rows A_i x_i; every A_i symmetric, positive semidefinite.
        right: The rows r_i.
        steps: As many as the accuracy asked for needs: about
            :math:`\sqrt{\kappa}` of them gain one digit at condition number :math:`\kappa`.

    Source:
        Hestenes and Stiefel, 1952.

    Example:
        >>> matrix = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
        >>> right = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
        >>> solution = conjugate_gradient(lambda x: x @ matrix, right, steps=2)
        >>> bool((solution @ matrix - right).abs().max() < 1e-12)
        True
    """
    solution, residual, search = torch.zeros_like(right), right, right
    size = residual.square().sum(1, keepdim=True)
    # A system solved to rounding rests: its residual is noise, in which curvature may be negative.
    solved = size * torch.finfo(right.dtype).eps ** 2
    for _ in range(steps):
        image = apply(search)
        curvature = (search * image).sum(1, keepdim=True)
        going = (size > solved) & (curvature > 0)
        step = torch.where(going, size / curvature, 0)
        solution = solution + step * search
        residual = residual - step * image
        following = residual.square().sum(1, keepdim=True)
        search = residual + torch.where(going, following / size, 0) * search
        size = following
    return solution
