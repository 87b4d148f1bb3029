"""Functions that a descent can follow and that are small where many entries vanish."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

# Where LogCosh turns from a parabola into an absolute value, for entries of root mean square 1.
# Smaller is nearer to l1, larger smooths more and leaves more to rounding: measured at 0.01 to 0.3.
LOG_COSH_WIDTH = 0.03


@runtime_checkable
class Surrogate(Protocol):
    """A stand-in for the number of non-zero entries, as a sum over entries."""

    @property
    def needs_rounding(self) -> bool:
        """Whether its minima are only near those of the number of non-zeros."""

    def value(self, entries: Float[Tensor, "k l"]) -> Float[Tensor, " k"]:
        """The sum over each row."""

    def derivative(self, entries: Float[Tensor, "k l"]) -> Float[Tensor, "k l"]:
        """Of the value, by each entry; some subgradient where there is a kink."""


@dataclass(frozen=True)
class L1:
    r"""The sum of absolute values: its minima on the sphere have entries that are exactly zero.

    Example:
        >>> L1().value(torch.tensor([[1.0, -2.0, 0.0]])).tolist()
        [3.0]
    """

    needs_rounding: ClassVar[bool] = False

    def value(self, entries: Float[Tensor, "k l"]) -> Float[Tensor, " k"]:
        """The l1 norm."""
        return entries.abs().sum(1)

    def derivative(self, entries: Float[Tensor, "k l"]) -> Float[Tensor, "k l"]:
        """The sign; 0 at 0."""
        return torch.sign(entries)


@dataclass(frozen=True)
class LogCosh:
    r"""The l1 norm with its kink rounded off: :math:`h_\mu(y) = \mu \log \cosh(y / \mu)`.

    Args:
        width: :math:`\mu > 0`, in units of the entries.

    Example:
        >>> LogCosh(0.5).value(torch.tensor([[0.0, 0.0]])).tolist()
        [0.0]
    """

    width: float = LOG_COSH_WIDTH
    needs_rounding: ClassVar[bool] = True

    def value(self, entries: Float[Tensor, "k l"]) -> Float[Tensor, " k"]:
        """The sum of h."""
        scaled = entries.abs() / self.width
        # cosh itself overflows; its logarithm does not.
        smooth = scaled + torch.nn.functional.softplus(-2 * scaled) - math.log(2)
        return self.width * smooth.sum(1)

    def derivative(self, entries: Float[Tensor, "k l"]) -> Float[Tensor, "k l"]:
        """The hyperbolic tangent of y / mu."""
        return torch.tanh(entries / self.width)


@dataclass(frozen=True)
class NegativeL4:
    r"""Minus the sum of fourth powers, a quarter of it: spiky products rather than sparse ones.

    Example:
        >>> NegativeL4().value(torch.tensor([[1.0, -2.0, 0.0]])).tolist()
        [-4.25]
    """

    needs_rounding: ClassVar[bool] = True

    def value(self, entries: Float[Tensor, "k l"]) -> Float[Tensor, " k"]:
        """Minus a quarter of the fourth powers."""
        return -entries.pow(4).sum(1) / 4

    def derivative(self, entries: Float[Tensor, "k l"]) -> Float[Tensor, "k l"]:
        """Minus the third power."""
        return -entries.pow(3)


SURROGATES: dict[str, Surrogate] = {"l1": L1(), "log_cosh": LogCosh(), "l4": NegativeL4()}
