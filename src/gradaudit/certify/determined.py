"""Whether a record's zeros single out its direction."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.linear.grams import BLOCK_ENTRIES, gather_rows
from gradaudit.linear.null_space import masked_null_vectors, without_null_vector
from gradaudit.linear.problem import Problem
from gradaudit.linear.tolerances import ACTIVE_TOLERANCES

# A second direction in which a record's zeros vanish would have a squared sine below these.
KERNEL_GAP = 1e-10
KERNEL_CONTRAST = 100.0
# Rows, in units of the batch size, of which most records' zeros show this already.
PLAIN_ROWS = 2
# Squared sine of a row's angle to those before it, below which it adds no dimension.
DEPENDENT = 1e-20


def determined_often(
    problem: Problem,
    directions: Float[Tensor, "r b"],
    small: Bool[Tensor, "r p"],
    *,
    times: int,
) -> Bool[Tensor, " r"]:
    """Whether so many disjoint parts of the zeros each allow one direction alone.

    Some of the zeros may be accidents: of r records that share their zeros, a mixture can be made
    to vanish at r - 1 more neurons, as it has r - 1 shares to choose. Every part of the zeros that
    singles it out has r - 1 of these neurons, so that two parts take twice as many as there are.

    The parts are bases of the space that the zeros span, each of the rows farthest from those
    before it, which are the rarest ones, and a share of what is left over.

    Args:
        problem: The layer.
        directions: Unit vectors, one a record.
        small: Entries that vanish, and that the record's own pattern explains.
        times: Number of parts.

    Source:
        Ours.
    """
    parts = _disjoint_bases(problem, directions, small, times)
    shown = torch.ones_like(small[:, 0])
    for part in range(times):
        open_ = torch.nonzero(shown)[:, 0]
        if len(open_):
            rows = (parts[open_] == part) & small[open_]
            shown[open_] = determined_once(problem, directions[open_], rows)
    return shown


def _disjoint_bases(
    problem: Problem, directions: Float[Tensor, "r b"], small: Bool[Tensor, "r p"], times: int
) -> Int[Tensor, "r p"]:
    """To which part every zero belongs; by Gram and Schmidt, with pivots."""
    norms = torch.where(problem.live, problem.sparse.norm(dim=1), 1.0)
    unit = problem.sparse / norms[:, None]
    count, size = unit.shape
    parts = small.cumsum(1) % times
    step = max(1, BLOCK_ENTRIES // (count * size))
    for first in range(0, len(small), step):
        chosen = slice(first, first + step)
        free = small[chosen] & problem.live
        for part in range(times):
            rows = _without(unit * free[..., None], directions[chosen])
            for _ in range(size - 1):
                lengths, at = rows.square().sum(2).max(1)
                new = torch.nonzero(lengths > DEPENDENT)[:, 0]
                if not len(new):
                    break
                at = at[new]
                parts[chosen][new, at] = part
                free[new, at] = False
                pivots = torch.zeros_like(directions[chosen])
                pivots[new] = rows[new, at]
                rows = _without(rows, pivots)
                rows[new, at] = 0.0
    return parts


def _without(rows: Float[Tensor, "r p b"], away: Float[Tensor, "r b"]) -> Float[Tensor, "r p b"]:
    """What is perpendicular to a vector, which may be zero."""
    unit = torch.nn.functional.normalize(away, dim=1, eps=1e-300)
    return rows - (rows @ unit[:, :, None]) * unit[:, None, :]


def determined_once(
    problem: Problem, directions: Float[Tensor, "r b"], small: Bool[Tensor, "r p"]
) -> Bool[Tensor, " r"]:
    """Whether the entries that vanish for a record do so for one direction alone.

    Where another record's support lies within its own, a sum of the two vanishes as well.

    Args:
        problem: The layer.
        directions: Unit vectors, one a record.
        small: Entries that vanish, and that the record's own pattern explains: two records that
            activate the same neurons share all zeros, and a sum of the two can be made to vanish
            at one more neuron, which would then seem to single it out.
    """
    size = problem.batch_size
    if size == 1:
        return torch.ones_like(small[:, 0])
    small = small & problem.live
    norms = torch.where(problem.live, problem.sparse.norm(dim=1), 1.0)
    unit = problem.sparse / norms[:, None]
    # Of near-duplicates the difference can be all noise, whose entries are no zeros. Squares of
    # what the noise makes of the direction that suffers most from it:
    worst = problem.zero_tolerance(torch.linalg.svd(problem.noise_shape).Vh[:1])
    blurred = small.to(unit) @ (ACTIVE_TOLERANCES * worst[0] / norms).square()
    determined = _plainly_determined(unit, directions, small, blurred)
    open_ = torch.nonzero(~determined)[:, 0]
    if not len(open_):
        return determined
    small, blurred = small[open_], blurred[open_]
    # The smallest is the record's own and shows the noise; the next is another direction's.
    _, first, second = masked_null_vectors(unit, small.to(unit))
    alone = second > KERNEL_CONTRAST * first + KERNEL_GAP
    # The squares against the eigenvalue, a share of the Gram matrix's norm, which is its trace over
    # sqrt(b) at least:
    doubtful = alone & (second * small.sum(1) <= blurred * size**0.5)
    for index in torch.nonzero(doubtful)[:, 0].tolist():
        other = torch.linalg.svd(unit[small[index]], full_matrices=False).Vh[-2:-1]
        clear = problem.pattern(other)[1][0] & small[index]
        alone[index] = bool(clear.any())
    determined[open_] = alone
    return determined


def _plainly_determined(
    unit: Float[Tensor, "p b"],
    directions: Float[Tensor, "r b"],
    small: Bool[Tensor, "r p"],
    blurred: Float[Tensor, " r"],
) -> Bool[Tensor, " r"]:
    """Records for which some of the rows that vanish allow no other direction already.

    By bounds on the criteria of `determined_once`: the first eigenvalue is no more than what the
    record's own direction gives, and the norm of a Gram matrix of unit rows no more than their
    number. A fraction of the rows is a fraction of the work.
    """
    size = unit.shape[1]
    own = ((directions @ unit.T).square() * small).sum(1)
    limits = KERNEL_CONTRAST * own + KERNEL_GAP * small.sum(1) + blurred * size**0.5
    count = min(PLAIN_ROWS * size, len(unit))
    order = small.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices[:, :count]
    plain = small.sum(1) >= count
    step = max(1, BLOCK_ENTRIES // (count * size))
    alone = [
        without_null_vector(gather_rows(unit, places), limit, known=own_direction)
        for places, limit, own_direction in zip(
            *(torch.split(part, step) for part in (order, limits, directions)), strict=True
        )
    ]
    return plain & torch.cat(alone)
