"""The gradient's low-rank factors, and the batch size that their number shows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.evidence import Spectrum
from gradaudit.linear.noise import effective_dtype, looks_independent, row_noise
from gradaudit.linear.tolerances import FLOAT64_EPS, GAP_RATIO, rounding_floor

# Up to this many rows or columns a full SVD costs less than a second.
FULL_SVD_SIDE = 512
# A gap above rounding is believed, whatever lies below it, from here on: records that differ by
# less than a thousandth of what they have in common are one for every purpose.
BELIEVED_GAP = 1e3
FIRST_SKETCH = 96
OVERSAMPLING = 16
# A random sketch shows the rounding of all columns in a few, and singular values to a factor of a
# few: what lies within so many rounding floors is looked at in the second pass.
ROUGH_FLOORS = 30.0
# Squares of anything smaller, in float64, are zero.
SMALLEST_ENTRY = 1e-150
# Singular values kept for the report; the rest of a large spectrum is noise anyway.
REPORTED_VALUES = 4096


@dataclass(frozen=True, eq=False)
class Factors:
    r"""The truncated SVD of a weight gradient, in float64.

    .. math:: \partial L / \partial W = U S V^T + R, \quad U: m \times b, \; V: n \times b

    Attributes:
        left: U.
        values: The diagonal of S, descending.
        right: V.
        row_noise: Standard deviation of the error of an entry in each row of the gradient, from
            R and, where R leaves little to measure, from the observed dtype's rounding.
        column_noise: The same for each column.
        spectrum: The decision about b.
    """

    left: Float[Tensor, "m b"]
    values: Float[Tensor, " b"]
    right: Float[Tensor, "n b"]
    row_noise: Float[Tensor, " m"]
    column_noise: Float[Tensor, " n"]
    spectrum: Spectrum

    @property
    def rank(self) -> int:
        """The numerical rank b."""
        return len(self.values)

    @property
    def arithmetic_error(self) -> float:
        """Absolute rounding error of float64 arithmetic on a matrix of this norm."""
        return FLOAT64_EPS * float(self.values[0]) if self.rank else 0.0


def factor_gradient(
    gradient: Float[Tensor, "m n"],
    *,
    generator: torch.Generator,
    output_layer: bool = False,
    weight: Float[Tensor, "m n"] | None = None,
) -> Factors:
    """Factor a weight gradient and decide its numerical rank.

    The rank is read at the rounding of the dtype in which the gradient was observed, if there is a
    gap there; else at the widest gap above it, if what lies below that looks like noise; else
    there is none, and the rank says nothing about the batch.

    Args:
        gradient: As observed, in its observed dtype.
        generator: For the range finder that large gradients take; on the gradient's device.
        output_layer: Whether rows may sum to zero as a softmax makes them, which takes one rank.
        weight: The weights, if the gradient is a difference of them and carries their rounding;
            decides nothing, but spares a large one the full decomposition of that rounding.

    Returns:
        The factors at the decided rank.

    Source:
        SPEAR (arXiv 2403.03945), Theorems 3.1 and 3.2. The gap test is ours.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> low = torch.randn(30, 4, generator=g) @ torch.randn(4, 50, generator=g)
        >>> factor_gradient(low, generator=g).rank
        4
    """
    matrix = gradient.to(torch.float64)
    limit = _largest_possible_rank(matrix, output_layer)
    if limit == 0 or float(matrix.abs().max()) < SMALLEST_ENTRY:
        return _empty(matrix)
    dtype = effective_dtype(gradient)
    floor_of = _FloorRule(dtype, float(matrix.norm(dim=1).max()), float(matrix.norm(dim=0).max()))
    if min(matrix.shape) <= FULL_SVD_SIDE:
        left, values, right = _svd(matrix)
    else:
        left, values, right = _sketched_svd(
            matrix, floor_of, generator, rounding_of_weights(weight)
        )
    floor = floor_of(float(values[0]))
    rank, threshold, ratio, has_gap, words = _decide(values, floor, limit)
    rest = matrix - (left[:, :rank] * values[:rank]) @ right[:, :rank].T
    doubtful = has_gap and threshold > floor and (ratio or 0.0) < BELIEVED_GAP
    if doubtful and not looks_independent(matrix, rest, rank):
        rank, threshold, ratio, has_gap, words = _decide(values, floor, limit, noise=False)
        rest = matrix - (left[:, :rank] * values[:rank]) @ right[:, :rank].T
    left, kept, right = left[:, :rank], values[:rank], right[:, :rank]
    spectrum = Spectrum(
        singular_values=tuple(values[:REPORTED_VALUES].tolist()),
        numerical_rank=rank,
        threshold=threshold,
        gap_ratio=ratio,
        has_gap=has_gap,
        largest_possible_rank=limit,
        noise_level=float(rest.square().mean().sqrt()),
        explanation=words,
    )
    return Factors(
        left,
        kept,
        right,
        row_noise=row_noise(matrix, rest, rank, dtype),
        column_noise=row_noise(matrix.T, rest.T, rank, dtype),
        spectrum=spectrum,
    )


def _largest_possible_rank(matrix: Tensor, output_layer: bool) -> int:
    """The rank that no batch can exceed here: live rows and columns, less the softmax's one."""
    live_rows = int((matrix != 0).any(1).sum())
    live_columns = int((matrix != 0).any(0).sum())
    limit = min(live_rows, live_columns)
    if output_layer and live_rows > 1 and live_rows <= live_columns:
        sums = matrix.sum(0).abs().max()
        if float(sums) <= 1e-3 * float(matrix.abs().max()) * live_rows**0.5:
            limit = min(limit, live_rows - 1)
    return limit


def _svd(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    return left, values, right.T


@dataclass(frozen=True)
class _FloorRule:
    dtype: torch.dtype
    largest_row: float
    largest_column: float

    def __call__(self, largest: float) -> float:
        return rounding_floor(self.dtype, largest, self.largest_row, self.largest_column)


def _sketched_svd(
    matrix: Tensor, floor_of: _FloorRule, generator: torch.Generator, rounding: float
) -> tuple[Tensor, Tensor, Tensor]:
    """SVD by a range finder whose size doubles until the gradient is exhausted to rounding.

    A gradient of rank b is captured by any sketch of more than b columns exactly, up to rounding,
    so that nothing is approximated; a full-rank (noisy) one ends in the full SVD. Errors that the
    rounding of weights leaves below a sketch turn its vectors by the cube of their relative size,
    as they themselves do in proportion.
    """

    def floor(largest: Tensor) -> float:
        return max(floor_of(float(largest)), rounding)

    columns, side = matrix.shape[1], min(matrix.shape) // 3
    sketch, size = matrix[:, :0], FIRST_SKETCH
    while size <= side:
        test = torch.randn(
            columns,
            size - sketch.shape[1],
            generator=generator,
            dtype=matrix.dtype,
            device=matrix.device,
        )
        sketch = torch.cat([sketch, matrix @ test], dim=1)
        basis, triangle = torch.linalg.qr(sketch)
        turned, rough, _ = torch.linalg.svd(triangle)
        rough = rough / size**0.5
        seen = int((rough > ROUGH_FLOORS * floor(rough[0])).sum())
        if seen + OVERSAMPLING <= size or 2 * size > side:
            kept = min(seen + 2 * OVERSAMPLING, size)
            # A second pass straightens the directions that the first one saw weakly.
            basis = torch.linalg.qr(matrix @ (matrix.T @ (basis @ turned[:, :kept]))).Q
            inner, values, right = _svd(basis.T @ matrix)
            if bool((values[kept - OVERSAMPLING :] <= floor(values[0])).all()):
                return basis @ inner, values, right
        size *= 2
    return _svd(matrix)


def _decide(
    values: Tensor, floor: float, limit: int, *, noise: bool = True
) -> tuple[int, float, float | None, bool, str]:
    """Rank, threshold, gap ratio, whether there is a gap, and the decision in words."""
    series = values.tolist()
    above = sum(value > floor for value in series)
    following = max(series[above], floor / 64.0) if above < len(series) else floor / 64.0
    ratio = series[above - 1] / following
    # A sketch that did not go down to rounding shows no gap there.
    if above < min(limit, len(series)) and ratio >= GAP_RATIO:
        return (
            above,
            floor,
            ratio,
            True,
            f"{above} singular values stand above rounding ({floor:.2g}); the next is {ratio:.1e} "
            "times smaller.",
        )
    # No gap at rounding level: look for the widest one above it, as noise would leave.
    ratios = [
        series[k - 1] / max(series[k], floor) for k in range(1, min(above, limit - 1, len(series)))
    ]
    if noise and ratios and max(ratios) >= GAP_RATIO:
        rank = ratios.index(max(ratios)) + 1
        return (
            rank,
            series[rank],
            ratios[rank - 1],
            True,
            f"{rank} singular values stand out; the next is {ratios[rank - 1]:.1e} times smaller "
            "but above rounding: noise, or records with a very weak signal.",
        )
    rank = min(above, limit)
    widest = max(ratios, default=1.0)
    words = f"No gap: {above} singular values of at most {limit} stand above rounding ({floor:.2g})"
    if noise:
        words += (
            f" and the widest gap between neighbours is {widest:.1f}-fold, below {GAP_RATIO:g}."
        )
    else:
        words += f"; below the widest gap ({widest:.1f}-fold) lies more than independent noise."
    return rank, floor, None, False, words


def rounding_of_weights(weight: Tensor | None) -> float:
    """The largest singular value that the rounding of weights explains; 0 without any.

    Args:
        weight: Weights whose difference was observed, in the type in which they were trained.

    Example:
        >>> 0 < rounding_of_weights(torch.ones(2, 2)) < 1e-4
        True
    """
    if weight is None:
        return 0.0
    rows, columns = (float(weight.double().norm(dim=axis).max()) for axis in (1, 0))
    return rounding_floor(weight.dtype, 0.0, rows, columns)


def _empty(matrix: Tensor) -> Factors:
    rows, columns = matrix.shape
    spectrum = Spectrum((), 0, 0.0, None, False, 0, 0.0, "The gradient is zero in every entry.")
    return Factors(
        matrix.new_zeros(rows, 0),
        matrix.new_zeros(0),
        matrix.new_zeros(columns, 0),
        matrix.new_zeros(rows),
        matrix.new_zeros(columns),
        spectrum,
    )
