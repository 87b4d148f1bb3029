"""The gradient's low-rank factors, and the batch size that their number shows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.evidence import Spectrum
from gradaudit.linear.blocks import Lines, measure_lines
from gradaudit.linear.noise import effective_dtype, is_independent, line_noise
from gradaudit.linear.range_finder import Decomposition, decompose
from gradaudit.linear.remainder import Remainder
from gradaudit.linear.stopping import Check, go_on
from gradaudit.linear.tolerances import FLOAT64_EPS, GAP_RATIO, rounding_floor

# A gap above rounding is believed, whatever lies below it, from here on: records that differ by
# less than a thousandth of what they have in common are one for every purpose.
BELIEVED_GAP = 1e3
# Squares of anything smaller, in float64, are zero.
SMALLEST_ENTRY = 1e-150
# Singular values kept for the report; the rest of a large spectrum is noise anyway.
REPORTED_VALUES = 4096
# A gradient of more entries (half a gibibyte in float64) is worked on in blocks, not copied.
WIDE_ENTRIES = 1 << 26
# Copies in float64 that an audit makes of a smaller one, at most; the network's are most of them.
WIDE_COPIES = 10
# Vectors kept of a streamed gradient in which no rank stands out: records above noise, if any.
KEPT_WITHOUT_GAP = 1024


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
        streamed: Whether the gradient is too large for copies of it, and its weights with it.
    """

    left: Float[Tensor, "m b"]
    values: Float[Tensor, " b"]
    right: Float[Tensor, "n b"]
    row_noise: Float[Tensor, " m"]
    column_noise: Float[Tensor, " n"]
    spectrum: Spectrum
    streamed: bool = False

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
    memory: int | None = None,
    check: Check = go_on,
) -> Factors:
    """Factor a weight gradient and decide its numerical rank.

    The rank is read at the rounding of the dtype in which the gradient was observed, if there is a
    gap there; else at the widest gap above it, if what lies below that looks like noise; else
    there is none, and the rank says nothing about the batch.

    Args:
        gradient: As observed, in its observed dtype.
        generator: For the range finder that large gradients take; computations are on its device.
        output_layer: Whether rows may sum to zero as a softmax makes them, which takes one rank.
        weight: The weights, if the gradient is a difference of them and carries their rounding;
            decides nothing, but spares a large one the full decomposition of that rounding.
        memory: Bytes that may be taken beside the gradient. One whose copies would take more is
            worked on in blocks; by default, one of more than 2**26 entries.
        check: Called between blocks of work, such as `gradaudit.budget.Control.check`; what it
            raises ends the work.

    Returns:
        The factors at the decided rank.

    Raises:
        InputError: Not even what is held beside the blocks fits into the memory.

    Source:
        SPEAR (arXiv 2403.03945), Theorems 3.1 and 3.2. The gap test is ours.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> low = torch.randn(30, 4, generator=g) @ torch.randn(4, 50, generator=g)
        >>> factor_gradient(low, generator=g).rank
        4
    """
    streamed = is_streamed(gradient, memory)
    matrix = gradient if streamed else gradient.to(generator.device, torch.float64)
    lines = measure_lines(matrix, generator.device, check)
    limit = _largest_possible_rank(lines, output_layer)
    if limit == 0 or lines.largest < SMALLEST_ENTRY:
        return _empty(lines, streamed)
    dtype = effective_dtype(gradient)
    floor_of = _FloorRule(
        dtype,
        lines.largest_row,
        lines.largest_column,
        rounding_of_weights(weight),
    )
    found = decompose(
        matrix, floor_of.least, generator, streamed=streamed, memory=memory, check=check
    )
    floor = max(floor_of(float(found.values[0])), found.lost)
    decision = _decide(found.values, floor, limit)
    (left, kept, right), rest = _split(matrix, found, decision, check)
    doubtful = decision.has_gap and decision.threshold > floor
    if doubtful and (decision.ratio or 0.0) < BELIEVED_GAP:
        rank = decision.rank
        if not is_independent(lines, rest, rank):
            decision = _decide(found.values, floor, limit, noise=False)
            (left, kept, right), rest = _split(matrix, found, decision, check)
    spectrum = Spectrum(
        singular_values=tuple(found.values[:REPORTED_VALUES].tolist()),
        numerical_rank=decision.rank,
        threshold=decision.threshold,
        gap_ratio=decision.ratio,
        has_gap=decision.has_gap,
        largest_possible_rank=limit,
        noise_level=(rest.energy / matrix.numel()) ** 0.5,
        explanation=decision.words + _lost(found),
    )
    rows, columns = matrix.shape
    return Factors(
        left,
        kept,
        right,
        row_noise=line_noise(lines.row_energies, rest.rows, columns, len(kept), dtype),
        column_noise=line_noise(lines.column_energies, rest.columns, rows, len(kept), dtype),
        spectrum=spectrum,
        streamed=streamed,
    )


def is_streamed(matrix: Float[Tensor, "m n"], memory: int | None) -> bool:
    """Whether a gradient is worked on in blocks rather than copied.

    By default its size decides, not the memory of the machine, so that a result depends on neither.

    Args:
        matrix: The gradient.
        memory: Bytes that may be taken beside it, or None for the default.

    Example:
        >>> is_streamed(torch.zeros(10, 10), None), is_streamed(torch.zeros(10, 10), 100)
        (False, True)
    """
    if memory is None:
        return matrix.numel() > WIDE_ENTRIES
    return matrix.numel() * 8 * WIDE_COPIES > memory


def _largest_possible_rank(lines: Lines, output_layer: bool) -> int:
    """The rank that no batch can exceed here: live rows and columns, less the softmax's one."""
    live_rows, live_columns = int(lines.live_rows.sum()), int(lines.live_columns.sum())
    limit = min(live_rows, live_columns)
    if output_layer and live_rows > 1 and live_rows <= live_columns:
        sums = float(lines.column_sums.abs().max())
        if sums <= 1e-3 * lines.largest * live_rows**0.5:
            limit = min(limit, live_rows - 1)
    return limit


def _split(
    matrix: Tensor, found: Decomposition, decision: _Decision, check: Check
) -> tuple[tuple[Tensor, Tensor, Tensor], Remainder]:
    """The leading factors and what they leave."""
    rank = decision.rank
    if found.lost and not decision.has_gap:
        rank = min(rank, KEPT_WITHOUT_GAP)
    left, values, right = found.leading(rank)
    return (left, values, right), Remainder(matrix, left * values, right.T, check=check)


def _lost(found: Decomposition) -> str:
    if not found.lost:
        return ""
    return (
        f" Found from the gradient's Gram matrix, in which values below {found.lost:.2g} are lost: "
        "the gradient is too large to be copied."
    )


@dataclass(frozen=True)
class _FloorRule:
    dtype: torch.dtype
    largest_row: float
    largest_column: float
    of_weights: float

    def __call__(self, largest: float) -> float:
        return rounding_floor(self.dtype, largest, self.largest_row, self.largest_column)

    def least(self, largest: float) -> float:
        """What a decomposition need not go below."""
        return max(self(largest), self.of_weights)


@dataclass(frozen=True)
class _Decision:
    rank: int
    threshold: float
    ratio: float | None
    has_gap: bool
    words: str


def _decide(values: Tensor, floor: float, limit: int, *, noise: bool = True) -> _Decision:
    """Rank, threshold, gap ratio, whether there is a gap, and the decision in words."""
    series = values.tolist()
    above = sum(value > floor for value in series)
    following = max(series[above], floor / 64.0) if above < len(series) else floor / 64.0
    ratio = series[above - 1] / following
    # A sketch that did not go down to rounding shows no gap there.
    if above < min(limit, len(series)) and ratio >= GAP_RATIO:
        return _Decision(
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
        return _Decision(
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
    return _Decision(rank, floor, None, False, words)


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
    lines = measure_lines(weight)
    return rounding_floor(weight.dtype, 0.0, lines.largest_row, lines.largest_column)


def _empty(lines: Lines, streamed: bool) -> Factors:
    rows, columns = lines.row_energies, lines.column_energies
    spectrum = Spectrum((), 0, 0.0, None, False, 0, 0.0, "The gradient is zero in every entry.")
    return Factors(
        rows.new_zeros(len(rows), 0),
        rows.new_zeros(0),
        rows.new_zeros(len(columns), 0),
        torch.zeros_like(rows),
        torch.zeros_like(columns),
        spectrum,
        streamed,
    )
