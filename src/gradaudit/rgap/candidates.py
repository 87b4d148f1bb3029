"""An input that may have given a gradient, with what speaks for it layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from gradaudit.rgap.layer import LayerSolution


@dataclass(frozen=True, eq=False)
class Candidate:
    """One input that may have given a record's gradient.

    Attributes:
        name: Which solution of the last layer it begins with; empty if there is but one.
        inputs: In the network's input shape, float64.
        label: The class, or None where the loss does not tell.
        error: Standard deviation of an entry, as the recursion predicts it.
        layers: How well each layer was determined, the last first.
        saturated: By activation, how many of its outputs were rounded to an end of their range.
    """

    name: str
    inputs: Float[Tensor, " ..."]
    label: int | None
    error: float
    layers: tuple[LayerSolution, ...]
    saturated: dict[str, int]

    @property
    def residual(self) -> float:
        """The largest part of a layer's gradient that its equations leave."""
        return max((float(layer.gradient_residual[0]) for layer in self.layers), default=0.0)

    @property
    def determined(self) -> bool:
        """Whether every layer has as many independent equations as unknowns."""
        return not self.deficits

    @property
    def deficits(self) -> dict[str, int]:
        """Unknowns without an equation, by layer, where there are some."""
        found = {layer.layer: int(layer.deficit[0]) for layer in self.layers}
        return {name: deficit for name, deficit in found.items() if deficit}
