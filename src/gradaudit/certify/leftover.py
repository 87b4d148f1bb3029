"""What the records leave over of the gradient: rounding and noise, or more records."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradaudit.evidence import Check
from gradaudit.linear.blocks import frobenius, measure_lines, transposed_times
from gradaudit.linear.remainder import Remainder
from gradaudit.linear.tolerances import FLOAT64_EPS, ZERO_ROUNDINGS

# The largest singular value of noise, in units of its expectation, stays below this (rounding
# errors of images reach 1.9, those of a difference of weights 3.6); a few records left out lie
# above it unless the layer is very narrow.
NOISE_EDGE = 5.0
POWER_STEPS = 30
# A leftover within so many roundings per entry is the observed type's rounding.
ENTRY_ROUNDINGS = 4.0


def noise_check(
    gradient: Float[Tensor, "m n"],
    leftover: Float[Tensor, "m n"] | Remainder,
    conditioning: float,
) -> Check:
    r"""Whether a leftover looks like independent errors of its entries.

    Scaled to unit variance by rows and columns, independent errors have a largest singular value
    of about :math:`\sqrt{m} + \sqrt{n}` (Bai and Yin, 1993). A record that was taken for noise is a
    rank-one pattern and stands above that.

    Args:
        gradient: As observed.
        leftover: What the records do not explain of it.
        conditioning: Condition number of the records; how much float64 arithmetic leaves over.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> noise = torch.randn(300, 400, generator=g, dtype=torch.float64)
        >>> hidden = torch.outer(noise[:, 0], noise[0])
        >>> noise_check(noise, noise, 1.0).passed, noise_check(noise, hidden, 1.0).passed
        (True, False)
    """
    value = 0.0
    arithmetic = ZERO_ROUNDINGS * FLOAT64_EPS * conditioning * float(frobenius(gradient))
    if float(norm_of(leftover)) > arithmetic:
        # Equal columns (a constant background) carry equal errors, which are not independent.
        kept = _distinct_columns(gradient)
        value = (
            _edge_in_blocks(leftover, kept)
            if isinstance(leftover, Remainder)
            else _edge(leftover[:, kept])
        )
    return Check(
        "leftover_is_noise",
        value,
        NOISE_EDGE,
        value <= NOISE_EDGE,
        "What the records do not explain has the spectrum of rounding or noise, not of more "
        "records.",
    )


def _edge(part: Float[Tensor, "m k"]) -> float:
    """The largest singular value at unit variance, in units of what noise has."""
    part = part[part.norm(dim=1) > 0]
    part = part[:, part.norm(dim=0) > 0] if len(part) else part
    if not part.numel():
        return 0.0
    part = part / part.square().mean(1, keepdim=True).sqrt()
    part = part / part.square().mean(0, keepdim=True).sqrt()
    rows, columns = part.shape
    return largest_singular_value(part) / (rows**0.5 + columns**0.5)


def _edge_in_blocks(leftover: Remainder, kept: Int[Tensor, " k"]) -> float:
    """The same without forming the leftover; lines that do not count are scaled to zero."""
    chosen = torch.zeros_like(leftover.columns)
    chosen[kept] = 1.0
    part = leftover.scaled(torch.ones_like(leftover.rows), chosen)
    rows, columns = int((part.rows > 0).sum()), int((part.columns > 0).sum())
    if not rows:
        return 0.0
    part = part.scaled(_unit(part.rows, columns), torch.ones_like(part.columns))
    part = part.scaled(torch.ones_like(part.rows), _unit(part.columns, rows))
    return part.spectral_norm() / (rows**0.5 + columns**0.5)


def _unit(energies: Float[Tensor, " k"], entries: int) -> Float[Tensor, " k"]:
    """What scales lines of so many entries to unit variance; 0 for those without any."""
    return torch.where(energies > 0, (energies / entries).rsqrt(), 0.0)


def norm_of(leftover: Float[Tensor, "m n"] | Remainder) -> Float[Tensor, ""]:
    """The Frobenius norm of a leftover, formed or not."""
    if isinstance(leftover, Remainder):
        return leftover.rows.sum().sqrt()
    return leftover.norm()


def is_rounding(
    gradient: Float[Tensor, "m n"],
    leftover: Float[Tensor, "m n"] | Remainder,
    eps: float,
    weight: Float[Tensor, "m n"] | None,
) -> bool:
    """Whether a leftover is no larger than the rounding of the type it was observed in.

    Args:
        gradient: As observed.
        leftover: What the records do not explain of it.
        eps: Relative rounding of the observed type.
        weight: The layer's weights if the update is their difference, whose rounding it carries.
    """
    size = float(frobenius(gradient))
    if weight is not None:
        size = math.hypot(size, float(frobenius(weight)))
    return float(norm_of(leftover)) <= ENTRY_ROUNDINGS * eps * size


def largest_singular_value(matrix: Float[Tensor, "m n"] | Remainder) -> float:
    """The spectral norm, from below, by power iteration from a fixed start.

    Example:
        >>> round(largest_singular_value(torch.diag(torch.tensor([3.0, 1.0]))), 6)
        3.0
    """
    if isinstance(matrix, Remainder):
        return matrix.spectral_norm()
    vector = _fixed_vector(matrix.shape[1], matrix)
    value = 0.0
    for _ in range(POWER_STEPS):
        image = matrix @ (vector / vector.norm())
        value = float(image.norm())
        if not value:
            break
        vector = matrix.T @ image
    return value


def _distinct_columns(matrix: Float[Tensor, "m n"]) -> Int[Tensor, " k"]:
    """One column of each direction; equal up to sign and powers of two, whose rounding is equal."""
    vector = _fixed_vector(len(matrix), matrix)
    if matrix.dtype == torch.float64:
        unit = matrix / matrix.norm(dim=0).clamp(min=torch.finfo(matrix.dtype).tiny)
        marks = (vector @ unit).abs()
    else:
        norms = measure_lines(matrix).column_energies.sqrt()
        product = transposed_times(matrix, vector.double()[:, None])[:, 0]
        marks = (product / norms.clamp(min=torch.finfo(torch.float64).tiny)).abs()
    _, inverse = torch.unique(marks, return_inverse=True)
    first = torch.full((int(inverse.max()) + 1,), matrix.shape[1], device=matrix.device)
    return first.scatter_reduce(
        0, inverse, torch.arange(matrix.shape[1], device=inverse.device), "amin"
    )


def _fixed_vector(size: int, like: Tensor) -> Float[Tensor, " n"]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(size, generator=generator, dtype=torch.float64, device="cpu").to(like)
