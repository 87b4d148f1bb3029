r"""What is known about one layer's input: two kinds of equations, and how far each is trusted.

The equations :math:`K x = \partial L / \partial W` carry the rounding of the observed gradient,
the equations :math:`W x = z` the error with which z was recovered. Each is divided by its own
standard deviation, so that the least squares solution is that of the smallest error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.chain import Affine
from gradaudit.rgap.operators import LayerEquations, constant
from gradaudit.rgap.phases import Phases
from gradaudit.rgap.spectrum import ChannelSpectrum, channel_spectrum, redundant

# An equation counts at least as uncertain as this part of the most uncertain one: a channel whose
# gradient vanishes must not freeze the others.
LEAST_SHARE = 1e-3
# Roundings of float64 that a solve leaves in the values it gives.
ARITHMETIC = 16 * torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class Known:
    """What is known at a place of the chain, going backwards.

    Attributes:
        values: Flat; None inside a skip block, where only the sum of two ways is known.
        error: Standard deviation of each value; infinite where it is only bounded.
        gradient: Loss gradient there, flat.
        gradient_error: Its relative error.
    """

    values: Float[Tensor, "p n"] | None
    error: Float[
        Tensor,
        (
            p  # n
        ),
    ]
    gradient: Float[Tensor, "p n"]
    gradient_error: Float[Tensor, " p"]

    def rows(self, kept: Bool[Tensor, " p"]) -> Known:
        """The same for some of the problems."""
        return Known(
            None if self.values is None else self.values[kept],
            self.error[kept],
            self.gradient[kept],
            self.gradient_error[kept],
        )


@dataclass(frozen=True, eq=False)
class LayerProblem:
    """One layer's equations for its input; several independent problems, one a row.

    Args:
        layer: With weights in float64.
        gradient: Observed weight gradient, flat, in float64.
        noise: Standard deviation of its entries, for each output of the layer.
        behind: What is known of what the activation is given.
        output_gradient: Loss gradient at the layer's own output, flat.
    """

    layer: Affine
    gradient: Float[Tensor, "p w"]
    noise: Float[Tensor, "p o"]
    behind: Known
    output_gradient: Float[Tensor, "p q"]
    equations: LayerEquations = field(init=False)
    deviation: Float[Tensor, "p o"] = field(init=False)
    phases: Phases = field(init=False)
    spectrum: ChannelSpectrum = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "equations", LayerEquations(self.layer, self.output_gradient))
        object.__setattr__(self, "deviation", self._deviation())
        object.__setattr__(self, "phases", Phases(self.layer))
        spectrum = channel_spectrum(
            self.phases, self.equations.k, 1 / self.deviation, self.precision
        )
        object.__setattr__(self, "spectrum", spectrum)

    @property
    def precision(self) -> Float[Tensor, " p"]:
        """Relative error of the gradient that is known behind the layer, at least the observed."""
        return torch.maximum(self.behind.gradient_error, self.relative_noise)

    @property
    def relative_noise(self) -> Float[Tensor, " p"]:
        """Noise of the observed gradient, relative to its size."""
        size = self.gradient.square().mean(1).sqrt()
        return self.noise.square().mean(1).sqrt() / size.clamp(min=torch.finfo(size.dtype).tiny)

    def _deviation(self) -> Float[Tensor, "p o"]:
        """Of the gradient equations: the observed gradient's noise, and what k's error adds."""
        size = self.gradient.reshape(*self.noise.shape, -1).square().mean(2).sqrt()
        deviation = torch.hypot(self.noise, size * self.behind.gradient_error[:, None])
        least = LEAST_SHARE * deviation.amax(1, keepdim=True)
        tiny = torch.finfo(size.dtype).tiny ** 0.5
        return torch.maximum(deviation, least).clamp(min=tiny)

    def rank(self) -> Int[Tensor, " p"]:
        r"""Independent equations, at most as many as there are unknowns that any of them sees.

        .. math:: \min(n,\; C \operatorname{rank}(B) + |z| - O \operatorname{rank}(k))

        The last term, since :math:`W (\partial L / \partial W)^T = z k^T` holds whatever x is.
        Where only some outputs are known, as behind a ReLU, an identity counts if it needs no
        other. `gradaudit.theory.layer_rank` gives the same from sizes alone.
        """
        layer = self.layer
        channels = self.phases.channels
        seen = len(set(self.phases.seen.flatten().tolist()) - {-1})
        rank = channels * self.spectrum.rank.sum(2)
        if self.behind.values is not None:
            known = torch.isfinite(self.behind.error).expand_as(self.behind.values)
            shape = (len(known), layer.groups, len(layer.weight) // layer.groups, -1)
            k, known = self.behind.gradient.reshape(shape), known.reshape(shape)
            rank = rank + known.sum((2, 3)) - redundant(k, known, self.precision)
        # Group by group, since none says anything about another one's inputs.
        return rank.clamp(max=channels * seen).sum(1)

    def outputs(self) -> Float[Tensor, "p z"]:
        """Right-hand sides of the outputs' equations; zero where a value is not known."""
        values = self.behind.values
        return (
            self.behind.gradient.new_zeros(self.behind.gradient.shape)
            if values is None
            else (values - constant(self.layer))
        )

    def trust(self) -> Float[Tensor, "p z"]:
        """One over the standard deviation of each output; zero where none is known."""
        values = self.behind.values
        if values is None:
            return torch.zeros_like(self.behind.gradient)
        floor = ARITHMETIC * values.abs().amax(1, keepdim=True)
        return (1 / torch.maximum(self.behind.error, floor)).expand_as(values)

    def by_channel(self) -> Float[Tensor, "p g f r c"]:
        """The weighed gradient as right-hand sides of B, one column a channel."""
        weighed = self.gradient.reshape(*self.deviation.shape, -1) / self.deviation[..., None]
        taps = len(self.phases.seen)
        shape = (len(weighed), self.layer.groups, len(self.layer.weight) // self.layer.groups)
        return self.phases.rows(weighed.reshape(*shape, -1, taps))

    def gradient_residual(self, inputs: Float[Tensor, "p n"]) -> Float[Tensor, " p"]:
        """What the gradient equations leave, relative to the gradient."""
        left = (self.equations.gradient(inputs) - self.gradient).norm(dim=1)
        return left / self.gradient.norm(dim=1).clamp(min=torch.finfo(left.dtype).tiny)
