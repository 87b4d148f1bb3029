"""The derivative of a map in its inputs: formed where it is small, else only multiplied with."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp, vmap

Map = Callable[[Tensor], Tensor]

# Unknowns up to which the derivative is formed and decomposed in a second or so.
DENSE_UNKNOWNS = 1024
# Entries that are formed at most: half a gigabyte.
DENSE_ENTRIES = 1 << 26
# Columns that are computed at once.
COLUMNS = 64
# Smallest over largest singular value at which a direction counts as determined: what float64
# resolves of squares.
DETERMINED = 1e-7


class Derivative:
    """Products with a derivative and with its adjoint; one row each, as `lsmr` wants them.

    Args:
        function: From inputs to flat values.
        inputs: Where.
    """

    def __init__(self, function: Map, inputs: Float[Tensor, "b ..."]) -> None:
        self._function = function
        with torch.inference_mode(False), torch.enable_grad():
            self._inputs = inputs.detach().clone().requires_grad_()
            self._outputs = function(self._inputs)
            # J^T r as a function of r is linear: its own derivative is J, for a third of what
            # differentiating forwards through a gradient takes.
            self._rows = torch.zeros_like(self._outputs, requires_grad=True)
            self._pulled = torch.autograd.grad(
                self._outputs, self._inputs, self._rows, create_graph=True
            )[0]
        self.values = self._outputs.detach()

    def small(self, unknowns: int = DENSE_UNKNOWNS) -> bool:
        """Whether it has no more unknowns than these, and can be formed."""
        count = self._inputs.numel()
        return count <= unknowns and count * self.values.numel() <= DENSE_ENTRIES

    def apply(self, direction: Float[Tensor, "1 n"]) -> Float[Tensor, "1 w"]:
        """J d."""
        shaped = direction.reshape(self._inputs.shape)
        return torch.autograd.grad(self._pulled, self._rows, shaped, retain_graph=True)[0][None]

    def adjoint(self, rows: Float[Tensor, "1 w"]) -> Float[Tensor, "1 n"]:
        """J^T r."""
        found = torch.autograd.grad(self._outputs, self._inputs, rows[0], retain_graph=True)
        # A copy, since `lsmr` works in place.
        return found[0].reshape(1, -1).clone()

    def decompose(self) -> Decomposed:
        """Form it, if it is `small`."""
        inputs = self._inputs.detach()
        unit = torch.eye(inputs.numel(), dtype=inputs.dtype, device=inputs.device)

        def along(direction: Tensor) -> Tensor:
            column: Tensor = jvp(self._function, (inputs,), (direction.reshape(inputs.shape),))[1]
            return column

        return Decomposed(torch.cat([vmap(along)(p) for p in torch.split(unit, COLUMNS)]))


class Decomposed:
    """A derivative with the eigenvectors of its squares.

    Args:
        rows: J^T, one row an unknown.
    """

    def __init__(self, rows: Float[Tensor, "n w"]) -> None:
        self._rows = rows
        # Cheaper than a singular value decomposition, and exact enough for what follows.
        values, self._vectors = torch.linalg.eigh(rows @ rows.T)
        self.squares = values.clamp(min=0)
        self._counted = values > DETERMINED**2 * values[-1]

    @property
    def complete(self) -> bool:
        """Whether every direction is determined."""
        return bool(self._counted.all())

    @property
    def inverse(self) -> Float[Tensor, " n"]:
        """One over the squares that count, zero for others."""
        return torch.where(self._counted, self.squares, torch.inf).reciprocal()

    def solve(self, values: Float[Tensor, " w"]) -> Float[Tensor, " n"]:
        """The shortest d with the least |J d - values|."""
        return self._vectors @ (self.inverse * (self._vectors.T @ (self._rows @ values)))
