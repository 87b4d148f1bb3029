"""The singular values of one channel's gradient equations: rank, closed-form solution, scaling."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from gradaudit.rgap.phases import Phases

# A singular value counts if it exceeds by this much the norm that independent errors in the
# matrix's entries have: their size times the sum of the square roots of its sides.
RANK_MARGIN = 4.0


@dataclass(frozen=True, eq=False)
class ChannelSpectrum:
    """Singular value decomposition of the weighed B of each group and phase: U diag(s) V^T.

    Attributes:
        phases: The blocks of B.
        left: U.
        values: s, descending.
        right: V^T; its rows are of one channel.
        rank: Values that are no rounding.
    """

    phases: Phases
    left: Float[Tensor, "p g f r i"]
    values: Float[Tensor, "p g f i"]
    right: Float[Tensor, "p g f i e"]
    rank: Int[Tensor, "p g f"]

    @property
    def complete(self) -> bool:
        """Whether the gradient equations alone determine every entry, in every problem."""
        return bool((self.rank.sum(2) == self.phases.entries).all())

    @property
    def condition(self) -> Float[Tensor, " p"]:
        """Largest over smallest singular value that counts."""
        least = torch.where(self._counts(), self.values, torch.inf).amin((2, 3))
        return (self.values.amax((2, 3)) / least).amax(1)

    def project(self, rows: Float[Tensor, "p g f r c"]) -> Float[Tensor, "p g f c i"]:
        """U^T of right-hand sides, by channel."""
        return (self.left.mT @ rows).mT

    def solve(self, rows: Float[Tensor, "p g f r c"]) -> Float[Tensor, "p n"]:
        """The channels from their equations; of several solutions the one next to zero."""
        parts = self.project(rows) * self._inverse()[:, :, :, None, :]
        return self.phases.join(parts @ self.right).flatten(1)

    def _counts(self) -> Bool[Tensor, "p g f i"]:
        places = torch.arange(self.values.shape[3], device=self.values.device)
        return places < self.rank[..., None]

    def _inverse(self) -> Float[Tensor, "p g f i"]:
        """One over the singular values that count, zero for others."""
        return torch.where(self._counts(), self.values, torch.inf).reciprocal()

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
        entries = self.phases.entries
        if not bool(weight.any()):
            return (self._inverse().square().sum((2, 3)).mean(1) / entries).sqrt()
        flat = weight[:, None, None, None]
        spanned = (self.values.square() + flat.square()).reciprocal().sum((2, 3))
        rest = (entries - self.values[0, 0].numel()) / weight.square()[:, None]
        return ((spanned + rest) / entries).mean(1).sqrt()


class Scaling:
    r"""The change of unknowns :math:`x = (B^T B / w^2 + I)^{-1/2} y`, channel by channel.

    In y, the gradient equations are :math:`s w (s^2 + w^2)^{-1/2} V^T y = U^T g`: diagonal but for
    V, and as many as their rank. y is kept phase by phase.

    Args:
        spectrum: Of B.
        weight: w, by problem.
    """

    def __init__(self, spectrum: ChannelSpectrum, weight: Float[Tensor, " p"]) -> None:
        phases, (_, groups, count, _, size) = spectrum.phases, spectrum.right.shape
        blocks = (1, groups, count, phases.channels, size)
        numbers = torch.arange(math.prod(blocks), device=weight.device)
        self._join = phases.join(numbers.reshape(blocks)).flatten()
        # From one on: zero stands for what fills up a block.
        inputs = (1, groups, phases.channels, phases.entries)
        numbers = torch.arange(1, math.prod(inputs) + 1, device=weight.device)
        self._split = phases.split(numbers.reshape(inputs)).flatten()
        flat = weight[:, None, None, None]
        length = torch.hypot(spectrum.values, flat)
        self._equation = (flat * spectrum.values / length).flatten(0, 2)[:, None, :]
        self._right = spectrum.right.flatten(0, 2)
        # Less one, so that what V does not span stays as it is.
        self._shrunk = (flat / length - 1).flatten(0, 2)[..., None] * self._right

    def __call__(
        self, scaled: Float[Tensor, "p y"]
    ) -> tuple[Float[Tensor, "p n"], Float[Tensor, "p i"]]:
        """The unknowns themselves, and the left-hand sides of the gradient equations."""
        blocks = scaled.reshape(len(self._right), -1, self._right.shape[2])
        parts = blocks @ self._right.mT
        inputs = torch.baddbmm(blocks, parts, self._shrunk).reshape(len(scaled), -1)
        rows = (parts * self._equation).reshape(len(scaled), -1)
        return inputs.index_select(1, self._join), rows

    def adjoint(
        self, inputs: Float[Tensor, "p n"], rows: Float[Tensor, "p i"]
    ) -> Float[Tensor, "p y"]:
        """Of `__call__`."""
        filled = functional.pad(inputs, (1, 0)).index_select(1, self._split)
        blocks = filled.reshape(len(self._right), -1, self._right.shape[2])
        rows = rows.reshape(len(blocks), -1, self._right.shape[1]) * self._equation
        parts = torch.baddbmm(rows, blocks, self._shrunk.mT)
        return torch.baddbmm(blocks, parts, self._right).reshape(len(inputs), -1)


def channel_spectrum(
    phases: Phases,
    k: Float[Tensor, "p g o l"],
    weights: Float[Tensor, "p m"],
    precision: Float[Tensor, " p"],
) -> ChannelSpectrum:
    """Decompose B, its rows weighed by output.

    Args:
        phases: Of the layer.
        k: Loss gradient at the layer's own output, by group.
        weights: One over the standard deviation of each output's equations.
        precision: Relative error of k.
    """
    # B is linear in k, and a row of it knows one output only.
    matrix = phases.matrix(k * weights.reshape(*k.shape[:3], 1))
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    rank = _rank(values, matrix.shape, precision)
    return ChannelSpectrum(phases, left, values, right, rank)


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
    values: Float[Tensor, "p g *f i"], shape: torch.Size, precision: Float[Tensor, " p"]
) -> Int[Tensor, "p g *f"]:
    """Values above what errors of the entries, and those of the decomposition, make of zero."""
    rows, columns = shape[-2:]
    entry = values.norm(dim=-1) / (rows * columns) ** 0.5
    relative = precision.reshape(-1, *[1] * (entry.ndim - 1))
    noise = relative * entry * (rows**0.5 + columns**0.5)
    rounding = torch.finfo(values.dtype).eps * max(rows, columns) * values[..., 0]
    cutoff = RANK_MARGIN * torch.maximum(noise, rounding)
    return (values > cutoff[..., None]).sum(-1)
