"""Records from noisy gradients that are mixed of others: what shows of it."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.linear.grams import weighted_grams

# Standard errors from which on a record's gradient shows in another one's inactive entries: fewer
# than one in a hundred thousand pairs of right records by accident.
MIXED_SIGMAS = 4.5
# Part of a record's clear neurons that may be on the wrong side, or a single one: 0.3 % are for a
# right record with normal errors, and more where the error itself is only estimated.
LARGEST_MISMATCH = 0.03
# Distance, over the smaller of their norms, below which records resemble each other. Mixed of two
# others, a record may fire as they do where they differ by a third; unrelated ones differ by 1.4.
RESEMBLING = 0.5


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
    inactive = _without_strays(inactive, gradients.T.abs())
    size = len(records)
    eye = torch.eye(size, dtype=records.dtype, device=records.device)
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


def with_their_likes(
    records: Float[Tensor, "b n"], certified: Bool[Tensor, " b"]
) -> Bool[Tensor, " b"]:
    """Of the certified records, those that every record which resembles them is certified beside.

    What one of two records that resemble each other lacks may be in the other: a mean of the two
    fires nearly the same neurons as each of them, and the odd one out is what shows it.

    Args:
        records: One a row.
        certified: By what each shows on its own.

    Example:
        >>> pair = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
        >>> with_their_likes(pair, torch.tensor([True, False, True])).tolist()
        [False, False, True]
    """
    norms = records.norm(dim=1)
    alike = torch.cdist(records, records) < RESEMBLING * torch.minimum(norms[:, None], norms)
    for _ in range(len(records)):
        doubted = alike & ~certified
        if not bool((certified & doubted.any(1)).any()):
            break
        certified = certified & ~doubted.any(1)
    return certified


def allowed_strays(clear: int) -> int:
    """How many of so many clear neurons may be on the wrong side of a right record.

    Example:
        >>> allowed_strays(10), allowed_strays(100)
        (1, 3)
    """
    return max(int(LARGEST_MISMATCH * clear), 1)


def _without_strays(
    inactive: Bool[Tensor, "b m"], entries: Float[Tensor, "b m"]
) -> Bool[Tensor, "b m"]:
    """Less the neurons with the largest entries, as many of them as may be on the wrong side.

    A single neuron close to its boundary is explained by shares of others as well as by itself; a
    share that is real shows on all neurons of the other record.
    """
    ranked = torch.where(inactive, entries, -torch.ones_like(entries)).sort(1, True).values
    allowed = [allowed_strays(int(row.sum())) for row in inactive]
    limits = ranked[torch.arange(len(ranked)), torch.tensor(allowed).clamp(max=ranked.shape[1] - 1)]
    return inactive & (entries <= limits[:, None])
