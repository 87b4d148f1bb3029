"""The singular values of one channel's gradient equations: rank, closed-form solution, scaling."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.rgap.operators import LayerEquations

# A singular value counts if it exceeds the matrix's relative error by this much, times the square
# roots of its sides: the norm of independent errors in its entries, and a margin.
RANK_MARGIN = 4.0


@dataclass(frozen=True, eq=False)
class ChannelSpectrum:
    """Singular value decomposition of the weighed B of each group: U diag(s) V^T.

    Attributes:
        left: U.
        values: s, descending.
        right: V^T; its rows are images of one channel.
        rank: Values that are no rounding.
    """

    left: Float[Tensor, "p g r i"]
    values: Float[Tensor, "p g i"]
    right: Float[Tensor, "p g i s"]
    rank: Int[Tensor, "p g"]

    @property
    def complete(self) -> bool:
        """Whether the gradient equations alone determine every entry, in every problem."""
        return bool((self.rank == self.right.shape[3]).all())

    @property
    def condition(self) -> Float[Tensor, " p"]:
        """Largest over smallest singular value that counts."""
        last = self.values.gather(2, (self.rank - 1).clamp(min=0)[..., None])[..., 0]
        return (self.values[..., 0] / last.clamp(min=1e-300)).amax(1)

    def solve(self, rows: Float[Tensor, "p g r c"]) -> Float[Tensor, "p n"]:
        """The channels from their equations, if these are `complete`."""
        parts = self.left.mT @ rows / self.values[..., None]
        return (self.right.mT @ parts).mT.reshape(len(rows), -1)

    def precondition(
        self, inputs: Float[Tensor, "p n"], weight: Float[Tensor, " p"]
    ) -> Float[Tensor, "p n"]:
        r"""Multiply every channel by :math:`(B^T B + w^2 I)^{-1/2}`.

        Args:
            inputs: Flat.
            weight: w, what the other equations weigh on average.
        """
        flat = weight[:, None, None]
        # Less one, so that what V does not span keeps its factor 1 / w.
        factor = flat / torch.hypot(self.values, flat) - 1
        channels = inputs.reshape(*self.rank.shape, -1, self.right.shape[3])
        parts = (channels @ self.right.mT) * factor[:, :, None, :]
        return ((channels + parts @ self.right) / flat[..., None]).reshape(inputs.shape)

    def error(self, weight: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        """Standard deviation of an entry, as if the other equations were orthogonal."""
        flat = weight[:, None, None]
        spanned = (self.values.square() + flat.square()).reciprocal().sum(2)
        rest = (self.right.shape[3] - self.right.shape[2]) / weight.square()[:, None]
        return ((spanned + rest) / self.right.shape[3]).mean(1).sqrt()


def channel_spectrum(
    equations: LayerEquations,
    weights: Float[Tensor, "p o"],
    precision: Float[Tensor, " p"],
) -> ChannelSpectrum:
    """Decompose B, its rows weighed by output.

    Args:
        equations: Of the layer.
        weights: One over the standard deviation of each output's equations.
        precision: Relative error of k.
    """
    matrix = equations.channel_matrix()
    problems, groups, rows, _ = matrix.shape
    by_output = weights.reshape(problems, groups, -1, 1)
    taps = rows // by_output.shape[2]
    matrix = matrix * by_output.expand(-1, -1, -1, taps).reshape(problems, groups, rows, 1)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    return ChannelSpectrum(left, values, right, _rank(values, matrix.shape, precision))


def gradient_rank(equations: LayerEquations, precision: Float[Tensor, " p"]) -> Int[Tensor, "p g"]:
    """Rank of k as a matrix of outputs by positions, for each group."""
    values = torch.linalg.svdvals(equations.k)
    return _rank(values, equations.k.shape, precision)


def _rank(
    values: Float[Tensor, "p g i"], shape: torch.Size, precision: Float[Tensor, " p"]
) -> Int[Tensor, "p g"]:
    least = torch.finfo(values.dtype).eps
    sides = shape[2] ** 0.5 + shape[3] ** 0.5
    cutoff = RANK_MARGIN * sides * precision.clamp(min=least)[:, None] * values[..., 0]
    return (values > cutoff[..., None]).sum(2)
