"""Activations that act entry by entry: value, inverse, slope, and where inputs are rounded away."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

KINDS = ("relu", "leaky_relu", "sigmoid", "tanh", "elu", "softplus")

# The same constant as in torch: beyond it softplus is the identity to double precision.
SOFTPLUS_THRESHOLD = 20.0


@dataclass(frozen=True)
class Activation:
    r"""An increasing function of every entry, as a step of a chain.

    Attributes:
        name: Module path, or the name of the call in the traced forward.
        kind: One of `KINDS`.
        shape: Of its input and output, without the batch.
        slope: Of ``leaky_relu`` below zero; :math:`\alpha` of ``elu``; :math:`\beta` of
            ``softplus``; without meaning for the others.

    Example:
        >>> activation = Activation("act", "leaky_relu", (2,), slope=0.2)
        >>> activation.inverse(activation(torch.tensor([-1.0, 3.0])))
        tensor([-1.,  3.])
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    slope: float = 1.0

    @property
    def input_shape(self) -> tuple[int, ...]:
        """As `shape`; every step has both."""
        return self.shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """As `shape`; every step has both."""
        return self.shape

    @property
    def invertible(self) -> bool:
        """Whether an output determines the input: ReLU's zeros do not."""
        return self.kind != "relu"

    @property
    def homogeneous(self) -> bool:
        """Whether a positive factor passes through it."""
        return self.kind in ("relu", "leaky_relu")

    @property
    def bend(self) -> float:
        """The most that the slope changes relative to itself, per unit of input; kinks aside."""
        return {"sigmoid": 1.0, "tanh": 2.0, "elu": 1.0, "softplus": self.slope}.get(self.kind, 0.0)

    def __call__(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The activation."""
        if self.kind == "relu":
            return values.clamp(min=0)
        if self.kind == "leaky_relu":
            return functional.leaky_relu(values, self.slope)
        if self.kind == "sigmoid":
            return values.sigmoid()
        if self.kind == "tanh":
            return values.tanh()
        if self.kind == "elu":
            return functional.elu(values, self.slope)
        return functional.softplus(values, self.slope, SOFTPLUS_THRESHOLD)

    def inverse(
        self, outputs: Float[Tensor, "*shape"], precision: float | None = None
    ) -> Float[Tensor, "*shape"]:
        """The input of an output; of ReLU's zeros, zero, the largest input that gives it.

        Outputs outside the range are taken as the last value inside it that the precision tells
        from its end, so that the result is finite.

        Args:
            outputs: What the activation gave, perhaps with an error.
            precision: Relative accuracy of the outputs; by default their type's.
        """
        inside = self._inside(outputs, self._precision(outputs, precision))
        if self.kind == "relu":
            return inside
        if self.kind == "leaky_relu":
            return torch.where(outputs < 0, outputs / self.slope, outputs)
        if self.kind == "sigmoid":
            return inside.logit()
        if self.kind == "tanh":
            return inside.atanh()
        if self.kind == "elu":
            return torch.where(inside < 0, (inside.clamp(max=0) / self.slope).log1p(), inside)
        # log(exp(b y) - 1) / b, written so that neither end overflows or cancels.
        curved = inside + (-torch.expm1(-self.slope * inside)).log() / self.slope
        return torch.where(self.slope * inside > SOFTPLUS_THRESHOLD, inside, curved)

    def derivative(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The slope at an input; at a kink, autograd's choice."""
        if self.kind == "relu":
            return (values > 0).to(values.dtype)
        if self.kind == "leaky_relu":
            return (values > 0).to(values.dtype) * (1 - self.slope) + self.slope
        if self.kind == "sigmoid":
            return values.sigmoid() * (-values).sigmoid()
        if self.kind == "tanh":
            return values.cosh().square().reciprocal()
        if self.kind == "elu":
            return torch.where(values > 0, 1.0, self.slope * values.clamp(max=0).exp())
        curved = (self.slope * values).sigmoid()
        return torch.where(self.slope * values > SOFTPLUS_THRESHOLD, 1.0, curved)

    def saturated(
        self, outputs: Float[Tensor, "*shape"], precision: float | None = None
    ) -> Bool[Tensor, "*shape"]:
        """Where the output is so near the end of its range that its input is rounded away.

        Args:
            outputs: What the activation gave.
            precision: Relative accuracy of the outputs; by default their type's.
        """
        if self.kind == "relu":
            return outputs <= 0
        return self._inside(outputs, self._precision(outputs, precision)) != outputs

    def _precision(self, outputs: Tensor, precision: float | None) -> float:
        least = torch.finfo(outputs.dtype).eps
        return least if precision is None else max(precision, least)

    def _inside(self, outputs: Tensor, precision: float) -> Tensor:
        if self.kind == "relu":
            return outputs.clamp(min=0)
        if self.kind == "sigmoid":
            return outputs.clamp(precision, 1 - precision)
        if self.kind == "tanh":
            return outputs.clamp(-1 + precision, 1 - precision)
        if self.kind == "elu":
            return outputs.clamp(min=-self.slope * (1 - precision))
        if self.kind == "softplus":
            return outputs.clamp(min=precision / self.slope)
        return outputs
