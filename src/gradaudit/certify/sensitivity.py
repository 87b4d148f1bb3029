"""How far a reconstruction can be off for all that the observed gradient says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp, vjp, vmap

from gradaudit.rgap.lsmr import lsmr

# Unknowns up to which the derivative is formed and decomposed in a second or so; beyond it is only
# multiplied with, if nothing else is asked for.
DENSE_UNKNOWNS = 1024
# Columns of the derivative that are computed at once.
COLUMNS = 64
# Entries of the derivative that are formed at most: half a gigabyte.
DENSE_ENTRIES = 1 << 26
# Smallest over largest singular value at which a direction counts as determined: what float64
# resolves of squares.
DETERMINED = 1e-7
# Iterations where the derivative is only multiplied with, and when they may end sooner.
ITERATIONS = 100
CONVERGED = 0.1


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """What the gradient's derivative in the inputs says about them.

    Attributes:
        error: Root mean square error of an entry, to first order: by the mismatch that is left and
            by noise as large as the observed gradient's.
        smallest: Smallest singular value of the derivative, whose rows are divided by the noise's
            standard deviation; an estimate from above where it was not decomposed.
        condition: The largest over it.
        determined: Whether no direction is left open; None where that was not found out.
    """

    error: float
    smallest: float
    condition: float
    determined: bool | None


def sensitivity(
    whitened: Callable[[Tensor], Float[Tensor, " w"]],
    inputs: Float[Tensor, "b ..."],
    mismatch: Float[Tensor, " w"],
    *,
    generator: torch.Generator,
    stop: Callable[[], bool] = lambda: False,
    dense_unknowns: int = DENSE_UNKNOWNS,
) -> Sensitivity:
    r"""Error and uniqueness of inputs near which a map takes the observed values.

    With J the derivative, an input that gives the observed gradient lies at :math:`x + J^+ r` to
    first order, r the mismatch, and noise e of unit deviation moves it by :math:`J^+ e`.

    Args:
        whitened: From inputs to their gradient, flat, each entry over its noise's deviation.
        inputs: Where, in float64.
        mismatch: Observed less recomputed, likewise.
        generator: Of the noise that stands for the gradient's own where J is not decomposed.
        stop: Asked during iterations; true ends them with what there is.
        dense_unknowns: Unknowns up to which J is formed and decomposed, which alone can show that
            no direction is left open.

    Example:
        >>> found = sensitivity(
        ...     lambda x: 2 * x.flatten(), torch.ones(1, 3).double(), torch.zeros(3).double(),
        ...     generator=torch.Generator())
        >>> found.error, found.determined
        (0.5, True)
    """
    unknowns = inputs.numel()
    if unknowns <= dense_unknowns and unknowns * mismatch.numel() <= DENSE_ENTRIES:
        return _decomposed(whitened, inputs, mismatch)
    return _iterated(whitened, inputs, mismatch, generator, stop)


def _decomposed(
    whitened: Callable[[Tensor], Tensor], inputs: Tensor, mismatch: Tensor
) -> Sensitivity:
    unit = torch.eye(inputs.numel(), dtype=inputs.dtype, device=inputs.device)

    def column(direction: Tensor) -> Tensor:
        along: Tensor = jvp(whitened, (inputs,), (direction.reshape(inputs.shape),))[1]
        return along

    rows = torch.cat([vmap(column)(part) for part in torch.split(unit, COLUMNS)])
    # The squares' eigenvectors serve for all that follows, and cost less than the matrix's own.
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    largest, smallest = values[-1].clamp(min=0).sqrt(), values[0].clamp(min=0).sqrt()
    counted = values > DETERMINED**2 * values[-1]
    inverse = torch.where(counted, values, torch.inf).reciprocal()
    shift = vectors @ (inverse * (vectors.T @ (rows @ mismatch)))
    error = (shift.square().mean() + inverse.mean()).sqrt()
    return Sensitivity(
        float(error),
        float(smallest),
        float(largest / smallest) if float(smallest) else math.inf,
        bool(counted.all()),
    )


def _iterated(
    whitened: Callable[[Tensor], Tensor],
    inputs: Tensor,
    mismatch: Tensor,
    generator: torch.Generator,
    stop: Callable[[], bool],
) -> Sensitivity:
    pulled: Any = vjp(whitened, inputs)
    pull = pulled[1]

    def apply(direction: Tensor) -> Tensor:
        along: Tensor = jvp(whitened, (inputs,), (direction.reshape(inputs.shape),))[1]
        return along[None]

    def adjoint(rows: Tensor) -> Tensor:
        return pull(rows[0])[0].reshape(1, -1).clone()

    noise = torch.randn(
        mismatch.shape, generator=generator, dtype=mismatch.dtype, device=generator.device
    ).to(mismatch.device)
    found = lsmr(
        apply,
        adjoint,
        (mismatch + noise)[None],
        tolerance=torch.full_like(mismatch[:1], CONVERGED * math.sqrt(inputs.numel())),
        iterations=ITERATIONS,
        stop=stop,
    )
    smallest = float(found.largest / found.condition)
    return Sensitivity(
        float(found.solution.square().mean().sqrt()), smallest, float(found.condition), None
    )
