r"""The margin of a single logit from the one number that the gradient tells of it.

With label :math:`y = \pm 1`, logit u and margin :math:`\mu = y u`, the product of weight and
weight gradient is :math:`c = -\mu / (1 + e^\mu)`. Its solutions are
:math:`\mu = -c - W(c e^{-c})` with the branches of Lambert's function: one for :math:`c \ge 0`,
two for :math:`-0.2785 \le c < 0`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.special import lambertw
from torch import Tensor

# Where both solutions meet: c is smallest, and d c / d mu = 0; W there is -1.
BRANCH_MARGIN = 1.0 + float(lambertw(math.exp(-1.0)).real)
LEAST_PRODUCT = -float(lambertw(math.exp(-1.0)).real)
# A product may lie below the least possible one by rounding, of this relative size.
SLACK = 1e-5
# Newton steps that remove what cancellation leaves of a closed form's digits.
POLISH = 3

Solution = tuple[Float[Tensor, " p"], Float[Tensor, " p"], Bool[Tensor, " p"]]


def product(margin: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
    """C of a margin.

    Example:
        >>> product(torch.tensor([0.0]))
        tensor([-0.])
    """
    return -margin * (-margin).sigmoid()


def margins(products: Float[Tensor, " p"]) -> tuple[Solution, Solution]:
    """Both solutions: margin, slope dc/dmu there, and whether it exists.

    Args:
        products: c, in float64.

    Returns:
        The larger margin and the smaller one. For c >= 0 there is only one, given as the smaller.
        Below the least possible c by no more than rounding, both are where they meet.

    Source:
        R-GAP (arXiv 2010.07733), section 3.1: c is not monotone in the margin.

    Example:
        >>> larger, smaller = margins(product(torch.tensor([3.0, -2.0], dtype=torch.float64)))
        >>> larger[0][0].item(), smaller[0][1].item(), larger[2].tolist()
        (3.0, -2.0, [True, False])
    """
    possible = products >= LEAST_PRODUCT * (1 + SLACK)
    inside = products.clamp(min=LEAST_PRODUCT)
    found = []
    for branch, exists in ((-1, possible & (products < 0)), (0, possible)):
        # Very large c: W(c exp(-c)) vanishes, and the margin is -c.
        numbers = inside.detach().cpu().double().numpy()
        values = lambertw(numbers * np.exp(-numbers), branch).real
        margin = -inside - torch.from_numpy(np.asarray(values)).to(inside)
        margin = torch.where(exists & torch.isfinite(margin), margin, BRANCH_MARGIN)
        margin = _polished(margin, inside)
        found.append((margin, _derivative(margin), exists))
    return found[0], found[1]


def _polished(margin: Tensor, products: Tensor) -> Tensor:
    for _ in range(POLISH):
        slope = _derivative(margin)
        # At the meeting point Newton's step is of no use, and the closed form is as good.
        flat = slope.abs() < SLACK
        step = (product(margin) - products) / torch.where(flat, 1.0, slope)
        margin = margin - torch.where(flat, 0.0, step)
    return margin


def _derivative(margin: Tensor) -> Tensor:
    fall = (-margin).sigmoid()
    return -fall + margin * fall * (1 - fall)
