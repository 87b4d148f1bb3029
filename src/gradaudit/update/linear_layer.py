"""One fully connected layer of an update."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """One fully connected layer as an attacker sees it.

    Attributes:
        name: The module path.
        weight: W, (outputs m, inputs n).
        bias: (m,), or None.
        weight_gradient: The observed change of W, up to a constant factor a gradient.
        bias_gradient: The observed change of the bias, or None.
    """

    name: str
    weight: Float[Tensor, "m n"]
    bias: Float[Tensor, " m"] | None
    weight_gradient: Float[Tensor, "m n"]
    bias_gradient: Float[Tensor, " m"] | None

    @property
    def shape(self) -> tuple[int, int]:
        """(outputs, inputs)."""
        return self.weight.shape[0], self.weight.shape[1]
