"""What each record contributes to a noisy gradient, from the records alone."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.blocks import applied
from gradaudit.linear.problem import Problem
from gradaudit.linear.remainder import Remainder


def share_out(
    problem: Problem, records: Float[Tensor, "b n"], level: float
) -> tuple[Float[Tensor, "m b"], Float[Tensor, " b"], float] | None:
    """dL/dZ by least squares, the error of its columns' entries, and the remainder over noise."""
    observed, bias = problem.layer.weight_gradient, problem.layer.bias_gradient
    squares, products = records @ records.T, applied(observed, records)
    width = observed.shape[1]
    if bias is not None:
        # The bias is one more input, which is 1 for every record.
        squares, products, width = squares + 1, products + bias, width + 1
    factor, failed = torch.linalg.cholesky_ex(squares)
    if int(failed) or not bool(torch.isfinite(factor).all()):
        return None
    gradients = torch.cholesky_solve(products, factor).T
    rest = Remainder(observed, gradients, records).energy
    if bias is not None:
        rest += float((bias - gradients.sum(1)).square().sum())
    # Both factors were fitted.
    freedom = (len(observed) - len(records)) * (width - len(records))
    remainder = rest / freedom / level**2
    entry_noise = level * torch.cholesky_inverse(factor).diagonal().sqrt()
    return gradients, entry_noise, remainder
