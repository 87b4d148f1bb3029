"""What each record's gradient is multiplied by in an update: alike, clipped, or anything."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from scipy.special import gammaincc
from torch import Tensor

# Probability of weights so far from a rule, if they follow it, below which they do not.
AGAINST_RULE = 1e-4


def estimate_weights(
    unit: Float[Tensor, "b m"],
    bias_gradient: Float[Tensor, " m"],
    level: float,
    norms: Float[Tensor, " b"] | None,
    later: Sequence[tuple[Tensor, Tensor]] = (),
) -> Float[Tensor, " b"]:
    r"""Fit :math:`\nabla_b = \sum_j w_j g_j` by the simplest rule that the noise allows.

    One weight for all records, as of a mean or a sum; else :math:`w_j = \min(w, c / n_j)`, as
    of gradients that are clipped to a norm; else weights of their own. A rule has one or two
    unknowns, which all entries determine together, and its scale is fitted to the biases of all
    layers: those of the last one are far larger than the noise. An error of the scale is one of all
    records. Weights of their own are known only as well as the records are.

    Args:
        unit: :math:`g_j`, the gradient of each record's own loss at the layer's outputs.
        bias_gradient: As observed.
        level: Standard deviation of the noise in an entry.
        norms: n, of the gradient of each record's own loss in all parameters; None if unknown.
        later: The same two of every later layer.

    Example:
        >>> unit = torch.eye(3, 6, dtype=torch.float64)
        >>> estimate_weights(unit, 0.5 * unit.sum(0), 1e-3, None)
        tensor([0.5000, 0.5000, 0.5000], dtype=torch.float64)
    """
    gram, seen = unit @ unit.T, unit @ bias_gradient
    free = torch.linalg.lstsq(gram, seen[:, None]).solution[:, 0]
    freedom = max(len(bias_gradient) - len(unit), 1)
    # What the gradients themselves are off is no noise, but it is as good as some.
    rest = float((bias_gradient - free @ unit).square().sum()) / freedom
    variance = max(level**2, rest)

    def fits(rule: Tensor, unknowns: int) -> bool:
        off = free - rule
        chi = float(off @ gram @ off) / variance
        return float(gammaincc(max(len(unit) - unknowns, 1) / 2, chi / 2)) >= AGAINST_RULE

    alike = _scaled(torch.ones_like(free), gram, seen)
    lines = [(unit, bias_gradient), *later]
    if fits(alike, 1):
        return _rescaled(alike, lines)
    if norms is not None and bool((norms > 0).all()):
        clipped = _clipped(norms, gram, seen, free)
        if fits(clipped, 2):
            return _rescaled(clipped, lines)
    return free


def _rescaled(rule: Tensor, lines: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """The multiple of a rule that fits the biases of several layers best."""
    sums = [(rule @ unit, observed) for unit, observed in lines]
    square = sum(float(total @ total) for total, _ in sums)
    return rule * (sum(float(total @ observed) for total, observed in sums) / square)


def _scaled(shape: Tensor, gram: Tensor, seen: Tensor) -> Tensor:
    """The multiple of some weights that fits best."""
    return shape * ((shape @ seen) / (shape @ gram @ shape))


def _clipped(norms: Tensor, gram: Tensor, seen: Tensor, free: Tensor) -> Tensor:
    """The best of the rules that clip the k largest norms, for every k."""
    best, least = free, torch.inf
    for limit in norms.sort().values:
        clipped = (norms >= limit).to(norms)
        shapes = torch.stack([1 - clipped, clipped / norms])
        if float(norms.min()) == float(limit):
            shapes = shapes[1:]
        fitted = torch.linalg.lstsq(shapes @ gram @ shapes.T, (shapes @ seen)[:, None]).solution
        rule = fitted[:, 0] @ shapes
        off = free - rule
        left = float(off @ gram @ off)
        if left < least:
            best, least = rule, left
    return best
