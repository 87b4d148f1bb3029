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
        several_steps: Whether the changes add up the gradients of several steps, each at weights of
            its own, and so are also how far weight and bias moved meanwhile.
    """

    name: str
    weight: Float[Tensor, "m n"]
    bias: Float[Tensor, " m"] | None
    weight_gradient: Float[Tensor, "m n"]
    bias_gradient: Float[Tensor, " m"] | None
    several_steps: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """(outputs, inputs)."""
        return self.weight.shape[0], self.weight.shape[1]
