"""Records from noisy gradients that are mixed of others: what shows of it."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.linear.grams import weighted_grams

# Standard errors from which on a record's gradient shows in another one's inactive entries: fewer
# than one in a hundred thousand pairs of right records by accident.
MIXED_SIGMAS = 4.5


def stand_alone(
    records: Float[Tensor, "b n"], entry_error: Float[Tensor, " b"]
) -> Bool[Tensor, " b"]:
    """Whether no other record is the same within the errors of both."""
    distance = torch.cdist(records, records) / records.shape[1] ** 0.5
    distance.fill_diagonal_(torch.inf)
    return (distance > entry_error[:, None] + entry_error).all(1)


def mixed_in(
    inactive: Bool[Tensor, "b m"],
    gradients: Float[Tensor, "m b"],
    entry_noise: Float[Tensor, " b"],
    records: Float[Tensor, "b n"],
) -> Float[Tensor, " b"]:
    r"""Error of an entry of each record by what shows of its gradient in other records' columns.

    If record j is :math:`(1 - \epsilon) x_j + \epsilon x_k`, its own column is right but for
    scale, and that of k holds :math:`-\delta g_j`, also where k is inactive. There the shares of
    all others are measured, by least squares, and what stands clear of the noise adds
    :math:`\delta (x_k - x_j)` to the error of j.

    Args:
        inactive: Neurons that a record clearly leaves inactive.
        gradients: dL/dZ, one record a column.
        entry_noise: Standard error of a column's entries.
        records: One a row.

    Source:
        Ours.
    """
    size = len(records)
    eye = torch.eye(size).to(records)
    silent = inactive.to(records)
    precision = entry_noise.square().reciprocal()
    share = torch.zeros_like(eye)
    for which, gram in weighted_grams(gradients, silent):
        own = torch.arange(size, device=records.device)[which]
        place = torch.arange(len(own), device=records.device)
        # Shares of a whole at most, before anything is seen; a column has none in itself.
        curvature = gram * precision[own, None, None]
        seen = curvature[place, :, own].clone()
        seen[place, own] = 0.0
        curvature[place, own] = 0.0
        curvature[place, :, own] = 0.0
        spread = torch.linalg.inv(curvature + eye)
        found = (spread @ seen[:, :, None])[..., 0]
        clear = found.abs() > MIXED_SIGMAS * spread.diagonal(dim1=1, dim2=2).sqrt()
        share[own] = torch.where(clear, found, torch.zeros_like(found))
    distance = torch.cdist(records, records) / records.shape[1] ** 0.5
    return (share * distance).square().sum(0).sqrt()
