"""How far off each record is: what the noise does to the whole fit, by doing it again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.problem import Problem
from gradaudit.noisy.expectation import smallest
from gradaudit.noisy.joint import Fit, scale_by_bias

# Repetitions: the error's own error is 1 / sqrt(2 * 8) of it where one direction of error
# dominates, and less where several do.
REPETITIONS = 8


@dataclass(frozen=True, eq=False)
class Errors:
    """Standard errors of a fit.

    Attributes:
        entry: Root mean square error of an entry of each record.
        side: Of a pre-activation of each record, from what is mixed in of other records.
        floor: What `entry` would be if the activation gradients were known: no attack on this
            layer alone does better without knowing more of the data.
    """

    entry: Float[Tensor, " b"]
    side: Float[Tensor, " b"]
    floor: Float[Tensor, " b"]


def estimate_errors(problem: Problem, fit: Fit, *, generator: torch.Generator) -> Errors:
    r"""Repeat the last step of the fit on simulated gradients with fresh noise.

    Two errors add up. Where the activation gradients G are known, least squares leaves
    :math:`\sigma \sqrt{[(G^T G)^{-1}]_{jj}}` in every entry. They are not: the zeros determine Q
    only so far, and the rest is mixed into the records from each other, more the more alike
    records are. That part is measured: :math:`G P + \sigma N` is fitted again with the rows'
    weights as they are.

    Args:
        problem: The layer.
        fit: Of all directions.
        generator: Of the simulated noise, on the device.

    Source:
        Ours; a parametric bootstrap (Efron and Tibshirani, 1993, section 6.5).
    """
    values, level = problem.factors.values, float(problem.sparse_noise.mean())
    features = problem.layer.weight.shape[1]
    size = len(values)
    gradients = (fit.directions @ problem.sparse.T) * fit.activity
    clean, bias = gradients.T @ fit.mixtures, gradients.sum(0)
    start = torch.nn.functional.normalize(fit.directions / values, dim=1)
    metric = torch.ones_like(values)
    square = torch.zeros_like(fit.mixtures[:, 0])
    side = torch.zeros_like(square)
    for _ in range(REPETITIONS):
        noise = torch.randn(
            len(clean), size + 1, generator=generator, dtype=clean.dtype, device=clean.device
        )
        rows = clean + level * noise[:, :size]
        again = smallest(rows, fit.precision, metric, start)
        scale = scale_by_bias(again @ rows.T, bias + level * noise[:, size])
        off = torch.linalg.inv((again * scale[:, None]).T) - fit.mixtures
        square += off.square().sum(1)
        side += (off @ problem.preactivation_map.T).square().mean(1)
    floor = level * torch.linalg.inv(gradients @ gradients.T).diagonal().clamp(min=0).sqrt()
    # The fit is within the span of the singular vectors, whose own error adds the floor outside.
    outside = floor.square() * (1 - size / features)
    entry = (square / REPETITIONS / features + outside).sqrt()
    return Errors(entry, (side / REPETITIONS).sqrt(), floor)
