"""From an approximate direction to the exact null vector behind it."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.linear.grams import gather_rows
from gradaudit.linear.null_space import masked_null_vectors, null_vectors
from gradaudit.linear.problem import Problem

ROUNDS = 4
# The kernel must be one-dimensional: the second smallest singular value, relative to the largest.
KERNEL_GAP = 1e-6
# The same for eigenvalues of a Gram matrix relative to its norm, while proposals are rough.
GRAM_GAP = 1e-9
# Rows of a plane that vanish in one direction agree on its angle to rounding and noise.
ANGLE_TOLERANCE = 1e-4


def exact_directions(
    problem: Problem, proposals: Float[Tensor, "k b"], minimum_zeros: int = 0
) -> Float[Tensor, "j b"]:
    """Snap proposals to the null vectors of the rows on which they nearly vanish, all at once.

    Alternates between choosing the rows (first the smallest few, then all within the noise's
    tolerance) and solving for their null vector, in float64. In the end all vanishing rows take
    part, so that noise in them averages out.

    Args:
        problem: The layer.
        proposals: Unit vectors, right to about 1e-3.
        minimum_zeros: Rows that must vanish, besides `Problem.zeros_needed`.

    Returns:
        The exact directions in the proposals' order, without those for which too few rows vanish
        or whose rows' kernel is not a line.
    """
    rows = problem.unit_rows
    needed = max(problem.zeros_needed + 1, minimum_zeros)
    if len(rows) < needed or not len(proposals):
        return proposals[:0].to(rows)
    proposals = proposals.to(rows)
    fewest = (proposals @ rows.T).abs().topk(problem.zeros_needed, dim=1, largest=False).indices
    chosen = torch.zeros(len(proposals), len(rows), dtype=torch.bool, device=rows.device)
    chosen.scatter_(1, fewest, True)
    null, _, second = null_vectors(gather_rows(problem.weighed_rows, fewest))
    # Rows of few active records are parallel to each other, and the fewest need not suffice.
    for index in torch.nonzero(second <= KERNEL_GAP**2)[:, 0].tolist():
        chosen[index] = _smallest(rows, proposals[index], problem.zeros_needed, needed)
        null[index] = _or_nan(null_vector(problem.weighed_rows[chosen[index]]), null[index])
    return _settle(problem, null, chosen, needed)


def _settle(
    problem: Problem, null: Float[Tensor, "k b"], chosen: Bool[Tensor, "k l"], needed: int
) -> Float[Tensor, "j b"]:
    """Follow null vectors to the rows that vanish and back, until those stay the same."""
    settled = torch.zeros(len(null), dtype=torch.bool, device=null.device)
    kept = torch.isfinite(null).all(1)
    for _ in range(ROUNDS):
        going = torch.nonzero(kept & ~settled)[:, 0]
        if not len(going):
            break
        following = problem.vanishing(null[going])[0][:, problem.live]
        enough = following.sum(1) >= needed
        kept[going[~enough]] = False
        same = (following == chosen[going]).all(1)
        settled[going[same]] = True
        going, following = going[enough & ~same], following[enough & ~same]
        if not len(going):
            break
        chosen[going] = following
        vectors, _, second = masked_null_vectors(problem.weighed_rows, following.to(null))
        null[going] = vectors
        kept[going[second <= KERNEL_GAP**2]] = False
    enough = problem.vanishing(null)[0][:, problem.live].sum(1) >= needed
    return null[kept & (settled | enough)]


def _or_nan(vector: Tensor | None, like: Tensor) -> Tensor:
    return torch.full_like(like, torch.nan) if vector is None else vector


def _smallest(
    rows: Float[Tensor, "l b"], direction: Float[Tensor, " b"], fewest: int, most: int
) -> Bool[Tensor, " l"]:
    """The rows of the smallest entries: as few as have a single null vector, up to a limit.

    See `purify` for why these rows and not those below a tolerance. Rows of few active records
    are parallel to each other, and the fewest of them may not suffice; beyond the limit only rows
    on which the direction all but vanishes are taken.
    """
    size, order = (rows @ direction).abs().sort()
    most = max(most, int((size < ANGLE_TOLERANCE).sum()))
    count = fewest
    while count < most and null_vector(rows[order[:count]]) is None:
        count = min(2 * count, most)
    chosen = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    chosen[order[:count]] = True
    return chosen


def purify(
    problem: Problem, proposals: Float[Tensor, "k b"], minimum_zeros: int
) -> Float[Tensor, "j b"]:
    """Sharpen proposals to about 1e-6, all at once, and split those that mix two directions.

    A submatrix that is inactive for two records has a plane for a kernel, and its proposal is
    some vector of that plane. Within the plane every other row vanishes in one direction only; a
    direction on which many rows agree is sparse, and is proposed instead.

    Args:
        problem: The layer.
        proposals: Unit vectors that nearly vanish on many rows.
        minimum_zeros: Rows that must vanish.

    Returns:
        Unit vectors, more or fewer than were given.
    """
    rows = problem.unit_rows
    if len(rows) < problem.zeros_needed:
        return proposals[:0]
    # The smallest few entries, all of them zeros of a true direction, rather than those below a
    # tolerance: one false zero among a hundred would bend the null vector.
    most = max(minimum_zeros, problem.zeros_needed)
    order = (proposals @ rows.T).abs().topk(min(most, len(rows)), dim=1, largest=False).indices
    vectors, first, second = null_vectors(gather_rows(rows, order))
    single = (first < GRAM_GAP) & (second > GRAM_GAP)
    pure = [vectors[single]]
    unclear = ~single
    if not bool(unclear.any()):
        return pure[0]
    dimension, vectors = _kernels(rows[order[unclear][:, : problem.zeros_needed]])
    pure.append(vectors[dimension == 1][:, :, 0])
    pure += [_split(rows, plane[:, :2], minimum_zeros) for plane in vectors[dimension == 2]]
    # A plane on all of whose vectors enough rows vanish tells nothing about which is pure, and
    # rows of few active records are parallel, so that many need not span a hyperplane:
    # `exact_directions` takes more of them.
    pure.append(proposals[unclear][dimension >= 2])
    return torch.cat(pure)


def _kernels(chosen: Float[Tensor, "k r b"]) -> tuple[Int[Tensor, " k"], Float[Tensor, "k b b"]]:
    """Kernel dimension of each set of rows, and eigenvectors, those of the kernel first."""
    values, vectors = torch.linalg.eigh(chosen.mT @ chosen)
    return (values < GRAM_GAP * values[:, -1:]).sum(1), vectors


def _split(
    rows: Float[Tensor, "l b"], plane: Float[Tensor, "b 2"], minimum_zeros: int
) -> Float[Tensor, "j b"]:
    """The directions of a plane on which at least so many rows vanish."""
    inside = rows @ plane
    moving = inside.norm(dim=1) > ANGLE_TOLERANCE
    rows_needed = minimum_zeros - int((~moving).sum())
    inside = inside[moving]
    # Row (x, y) vanishes in the direction of angle atan2(-x, y), modulo a half turn.
    angles = torch.remainder(torch.atan2(-inside[:, 0], inside[:, 1]), torch.pi).sort().values
    if rows_needed < 2 or len(angles) < rows_needed:
        return plane.new_zeros(0, len(plane))
    span = angles[rows_needed - 1 :] - angles[: len(angles) - rows_needed + 1]
    first = torch.nonzero(span < ANGLE_TOLERANCE)[:, 0]
    if not len(first):
        return plane.new_zeros(0, len(plane))
    # Neighbouring windows of one run differ by rounding; the first of each run stands for it.
    first = first[torch.nn.functional.pad(first.diff() > 1, (1, 0), value=True)]
    angle = angles[first + rows_needed // 2]
    return torch.stack([angle.cos(), angle.sin()], dim=1) @ plane.T


def null_vector(rows: Float[Tensor, "k b"]) -> Float[Tensor, " b"] | None:
    """The unit vector that the rows annihilate best, or None if there is more than one.

    Args:
        rows: At least b - 1 of them, unit norm.

    Example:
        >>> vector = null_vector(torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]))
        >>> vector.abs().tolist()
        [0.0, 0.0, 1.0]
    """
    if len(rows) < rows.shape[1]:
        padding = rows.new_zeros(rows.shape[1] - len(rows), rows.shape[1])
        rows = torch.cat([rows, padding])
    # The triangular factor has the same right singular vectors, and is b x b.
    triangle = torch.linalg.qr(rows, mode="r").R
    _, values, right = torch.linalg.svd(triangle)
    if rows.shape[1] > 1 and values[-2] <= KERNEL_GAP * values[0]:
        return None
    return right[-1]
