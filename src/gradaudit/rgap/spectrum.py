"""The singular values of one channel's gradient equations: rank, closed-form solution, scaling."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.rgap.operators import LayerEquations

# A singular value counts if it exceeds by this much the norm that independent errors in the
# matrix's entries have: their size times the sum of the square roots of its sides.
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

    def project(self, rows: Float[Tensor, "p g r c"]) -> Float[Tensor, "p g c i"]:
        """U^T of right-hand sides, by channel."""
        return (self.left.mT @ rows).mT

    def solve(self, rows: Float[Tensor, "p g r c"]) -> Float[Tensor, "p n"]:
        """The channels from their equations; of several solutions the one next to zero."""
        parts = self.project(rows) * self._inverse()[:, :, None, :]
        return (parts @ self.right).reshape(len(rows), -1)

    def _inverse(self) -> Float[Tensor, "p g i"]:
        """One over the singular values that count, zero for others."""
        places = torch.arange(self.values.shape[2], device=self.values.device)
        counts = places < self.rank[..., None]
        return torch.where(counts, self.values, torch.inf).reciprocal()

    def scaling(self, weight: Float[Tensor, " p"]) -> Scaling:
        """Unknowns in which these equations and others of some weight are of one size.

        Args:
            weight: Of the others, on average.
        """
        return Scaling(self, weight)

    def error(self, weight: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
        """Standard deviation of an entry that the equations' own leaves, unit by unit.

        Args:
            weight: Of the other equations, taken for orthogonal; with zero, of these alone, and of
                what they determine.
        """
        if not bool(weight.any()):
            return self._inverse().square().mean((1, 2)).sqrt()
        flat = weight[:, None, None]
        spanned = (self.values.square() + flat.square()).reciprocal().sum(2)
        rest = (self.right.shape[3] - self.right.shape[2]) / weight.square()[:, None]
        return ((spanned + rest) / self.right.shape[3]).mean(1).sqrt()


class Scaling:
    r"""The change of unknowns :math:`x = (B^T B + w^2 I)^{-1/2} y`, channel by channel.

    In y, the gradient equations are :math:`s (s^2 + w^2)^{-1/2} V^T y = U^T g`: diagonal but for V,
    and as many as their rank.

    Args:
        spectrum: Of B.
        weight: w, by problem.
    """

    def __init__(self, spectrum: ChannelSpectrum, weight: Float[Tensor, " p"]) -> None:
        self._right = spectrum.right
        self._shape = (*spectrum.rank.shape, -1, spectrum.right.shape[3])
        flat = weight[:, None, None]
        length = torch.hypot(spectrum.values, flat)
        self._weight = flat[..., None]
        self._equation = (spectrum.values / length)[:, :, None, :]
        # Less one, so that what V does not span keeps its factor 1 / w.
        self._factor = (flat / length - 1)[:, :, None, :]

    def __call__(
        self, scaled: Float[Tensor, "p n"]
    ) -> tuple[Float[Tensor, "p n"], Float[Tensor, "p i"]]:
        """The unknowns themselves, and the left-hand sides of the gradient equations."""
        channels = scaled.reshape(self._shape)
        parts = channels @ self._right.mT
        inputs = (channels + (parts * self._factor) @ self._right) / self._weight
        return inputs.reshape(scaled.shape), (parts * self._equation).flatten(1)

    def adjoint(
        self, inputs: Float[Tensor, "p n"], rows: Float[Tensor, "p i"]
    ) -> Float[Tensor, "p n"]:
        """Of `__call__`."""
        channels = inputs.reshape(self._shape) / self._weight
        parts = (channels @ self._right.mT) * self._factor
        parts = parts + rows.reshape(parts.shape) * self._equation
        return (channels + parts @ self._right).reshape(inputs.shape)


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


def redundant(
    gradient: Float[Tensor, "p g o l"],
    known: Bool[Tensor, "p g o l"],
    precision: Float[Tensor, " p"],
) -> Int[Tensor, "p g"]:
    r"""How many of the identities :math:`W (\partial L / \partial W)^T = z k^T` bind known outputs.

    For each output, the combinations of k's rows that vanish where it is not known:
    :math:`\operatorname{rank}(k)` less that of k in those columns.

    Args:
        gradient: k behind the layer's fixed maps, by group.
        known: Which of the layer's outputs there are.
        precision: Relative error of k.
    """
    whole = _rank(torch.linalg.svdvals(gradient), gradient.shape, precision)
    outputs = gradient.shape[2]
    if bool(known.all()):
        return outputs * whole
    count = torch.zeros_like(whole)
    for output in range(outputs):
        hidden = gradient * ~known[:, :, output, None]
        count += whole - _rank(torch.linalg.svdvals(hidden), gradient.shape, precision)
    return count


def _rank(
    values: Float[Tensor, "p g i"], shape: torch.Size, precision: Float[Tensor, " p"]
) -> Int[Tensor, "p g"]:
    """Values above what errors of the entries, and those of the decomposition, make of zero."""
    rows, columns = shape[2], shape[3]
    entry = values.norm(dim=2) / (rows * columns) ** 0.5
    noise = precision[:, None] * entry * (rows**0.5 + columns**0.5)
    rounding = torch.finfo(values.dtype).eps * max(rows, columns) * values[..., 0]
    cutoff = RANK_MARGIN * torch.maximum(noise, rounding)
    return (values > cutoff[..., None]).sum(2)
