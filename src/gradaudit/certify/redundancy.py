"""How firmly rows of a gradient fix records: what an error of one row or two could hide."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradaudit.linear.tolerances import FLOAT64_EPS, RESIDUAL_FACTOR, ZERO_ROUNDINGS

# Redundancy of a row (1 - leverage), or of two together, at which an error of it cannot be seen in
# the remainders at all; its root is how much of a larger one can be.
LEAST_REDUNDANCY = 1e-8
# Two rows that together leave more than this share of what the weaker leaves alone are no pair.
PAIR_SHARE = 0.5


def firmness(
    shares: Float[Tensor, "e r"], size: Float[Tensor, " e"]
) -> tuple[Bool[Tensor, " r"], Float[Tensor, " r"], Float[Tensor, " r"]]:
    r"""Which records stay determined whichever two rows are left out, and how well.

    With the hat matrix H of the shares, errors of the rows T stay unseen only where
    :math:`(I - H)_{TT}` is singular.

    Args:
        shares: The records' shares of the rows they explain, over each row's noise.
        size: The rows' norms over their noise.

    Returns:
        Per record: whether it is firm; its error (norm) by the rows' noise; what errors of two
        rows could add to it without being seen.

    Source:
        W. Baarda, A testing procedure for use in geodetic networks, 1968.
    """
    columns = shares.norm(dim=0)
    present = columns > 0
    error = torch.full_like(columns, torch.inf)
    hidden, firm = error.clone(), torch.zeros_like(present)
    left, values, right = torch.linalg.svd(
        shares[:, present] / columns[present], full_matrices=False
    )
    rank = int((values > ZERO_ROUNDINGS * FLOAT64_EPS * len(shares)).sum())
    left, right = left[:, :rank], right[:rank]
    # What the rest of the space could still add to a record leaves it undetermined.
    determined = right.square().sum(0) > 1 - ZERO_ROUNDINGS * len(shares) * FLOAT64_EPS
    inverse = (right.T / values[:rank]) @ left.T / columns[present, None]
    spread = torch.where(determined, inverse.norm(dim=1), torch.inf)
    redundancy = torch.eye(len(left), dtype=left.dtype, device=left.device) - left @ left.T
    unseen, most = _by_single_rows(redundancy, inverse, size, spread)
    unseen_pairs, most_of_pairs = _by_pairs(redundancy, inverse, size, spread)
    error[present], hidden[present] = spread, torch.maximum(most, most_of_pairs)
    firm[present] = determined & ~unseen & ~unseen_pairs
    return firm, error, hidden


def _by_single_rows(
    redundancy: Float[Tensor, "e e"],
    inverse: Float[Tensor, "r e"],
    size: Float[Tensor, " e"],
    spread: Float[Tensor, " r"],
) -> tuple[Bool[Tensor, " r"], Float[Tensor, " r"]]:
    """Records that one row alone can move unseen, and how far one can move the others."""
    own = redundancy.diagonal()
    seen = own >= LEAST_REDUNDANCY
    # A row cannot be more wrong than altogether.
    unseen = ((inverse.abs() * size > spread[:, None]) & ~seen).any(1)
    reach = torch.where(seen, RESIDUAL_FACTOR / own.clamp(min=LEAST_REDUNDANCY).sqrt(), 0.0)
    return unseen, (inverse.abs() * reach).amax(1)


def _by_pairs(
    redundancy: Float[Tensor, "e e"],
    inverse: Float[Tensor, "r e"],
    size: Float[Tensor, " e"],
    spread: Float[Tensor, " r"],
) -> tuple[Bool[Tensor, " r"], Float[Tensor, " r"]]:
    """Records that two rows together can move unseen, and how far two can move the others."""
    own = redundancy.diagonal()
    middle, half = (own[:, None] + own) / 2, (own[:, None] - own) / 2
    smallest = middle - (half.square() + redundancy.square()).sqrt()
    seen = own >= LEAST_REDUNDANCY
    # Others add nothing to what the weaker of their rows says alone.
    alone = torch.minimum(own[:, None], own)
    close = (smallest < PAIR_SHARE * alone) & seen[:, None] & seen
    first, second = torch.nonzero(close.triu(1)).T
    if not len(first):
        return torch.zeros_like(spread, dtype=torch.bool), torch.zeros_like(spread)
    # The eigenvector of [[a, c], [c, d]] with eigenvalue l is (c, l - a).
    ahead = redundancy[first, second]
    value = smallest[first, second]
    behind = value - own[first]
    length = (ahead.square() + behind.square()).sqrt()
    moved = (inverse[:, first] * ahead + inverse[:, second] * behind).abs() / length
    seen = value >= LEAST_REDUNDANCY
    largest = torch.maximum(size[first], size[second])
    unseen = ((moved * largest > spread[:, None]) & ~seen).any(1)
    reach = torch.where(seen, RESIDUAL_FACTOR / value.clamp(min=LEAST_REDUNDANCY).sqrt(), 0.0)
    return unseen, (moved * reach).amax(1)
