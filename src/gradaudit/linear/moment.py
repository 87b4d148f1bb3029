"""The iteration of the half-space search: a direction and its record's half-space, in turns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

# Subnormal numbers are a hundred times slower; in float32 they begin at exp(-87).
LARGEST_EXPONENT = 80.0
# A block ends early when so many of its starts have all but come to rest since the last look.
SETTLED, SETTLED_SHARE, SETTLED_EVERY = 1 - 1e-3, 0.9, 15
# Part of a direction that an iteration keeps: without it some starts alternate between two points.
INERTIA = 0.25


@dataclass(frozen=True)
class Phase:
    """Some iterations of one kind.

    Attributes:
        iterations: How many.
        tie: Weight of the half-space that the direction itself implies, beside the one that its
            entries show, in units of the latter's noise.
        contrast: Weight of the sparsity contrast beside the half-space one.
        pull: Weight of the direction that the half-space implies.
    """

    iterations: int
    tie: float
    contrast: float
    pull: float = 0.0


def iterate(
    rows: Float[Tensor, "l b"],
    features: Float[Tensor, "l d"],
    link: Float[Tensor, "d b"],
    starts: Float[Tensor, "k b"],
    phases: tuple[Phase, ...],
    *,
    away_from: Float[Tensor, "b f"],
) -> Float[Tensor, "k b"]:
    r"""Move unit vectors q towards true directions, all at once.

    With whitened rows U~ and features A~ (l rows each), d columns of A~, and the link M:

    .. math::
        y &= \tilde U q, \qquad s = \operatorname{mean}(e^{-y^2/2}) - e^{-y^2/2}, \qquad
        p = \frac{\tilde A^T s}{\operatorname{std}(s) \sqrt{l d}}
            + \gamma \frac{M q}{\lVert M q \rVert} \\
        q &\leftarrow \frac1l \tilde U^T (\operatorname{sign}(\tilde A p)\, y)
            + \alpha\, [\operatorname{mean}((1 - y^2) e^{-y^2/2})\, q
            - \tfrac1l \tilde U^T (y e^{-y^2/2})]
            + \beta \frac{M^T \tilde A^T s}{\lVert \cdot \rVert} + q / 4,
            \text{ normalised}

    A direction and its record are a pair: the first term of p is the half-space that the entries
    of U q show, of noise 1; the second is what the direction itself says of its record. At a start
    that overlaps a true direction by :math:`\rho` the first carries :math:`\rho^2` of the truth
    and the second nearly :math:`\rho`.

    Args:
        rows: U~, of mean square 1 along every direction.
        features: A~, likewise.
        link: M, from `pairs.record_link`.
        starts: Not zero.
        phases: One after the other; :math:`\gamma, \alpha, \beta` are a phase's ``tie``,
            ``contrast`` and ``pull``.
        away_from: Orthonormal columns that the directions stay orthogonal to.

    Returns:
        Unit vectors.

    Source:
        Ours. The contrast is FastICA's.
    """
    current, scale = _beside(starts, away_from), 1.0 / len(rows)
    for phase in phases:
        before = current
        for count in range(phase.iterations):
            if count % SETTLED_EVERY == 0 and count:
                still = (current * before).sum(1) > SETTLED
                if float(still.to(rows).mean()) > SETTLED_SHARE:
                    break
                before = current
            entries = current @ rows.T
            square = entries.square()
            bell = _bell(square)
            shown = _shown(bell, features)
            side = _sides(shown, current, features, link, phase.tie).sign_()
            step = side.sub_(bell, alpha=phase.contrast).mul_(entries) @ rows * scale
            curvature = (bell.sum(1) - (square * bell).sum(1)) * scale
            step = step + phase.contrast * curvature[:, None] * current
            if phase.pull:
                step = step + phase.pull * normalize(shown @ link, dim=1)
            current = _beside(step + INERTIA * current, away_from)
    return current


def judge(
    rows: Float[Tensor, "l b"],
    features: Float[Tensor, "l d"],
    link: Float[Tensor, "d b"],
    directions: Float[Tensor, "k b"],
    tie: float,
) -> tuple[Float[Tensor, "k l"], Float[Tensor, " k"]]:
    """Each direction's half-space, and a score that is large for true pairs.

    The score is the mean of sign(z) y^2 + 2 exp(-y^2 / 2) - 4 |y|: energy on the active side, and
    two measures of how many entries vanish.
    """
    entries = directions @ rows.T
    square = entries.square()
    bell = _bell(square)
    sides = _sides(_shown(bell, features), directions, features, link, tie)
    active_energy = (torch.sign(sides) * square).mean(1)
    return sides, active_energy + 2 * bell.mean(1) - 4 * entries.abs().mean(1)


def _beside(vectors: Float[Tensor, "k b"], span: Float[Tensor, "b f"]) -> Float[Tensor, "k b"]:
    """What of the vectors is orthogonal to the columns, as unit vectors."""
    return normalize(vectors - (vectors @ span) @ span.T, dim=1)


def _bell(square: Float[Tensor, "k l"]) -> Float[Tensor, "k l"]:
    """exp(-y^2 / 2), but never so small that arithmetic on it is slow."""
    return square.mul(-0.5).clamp_(min=-LARGEST_EXPONENT).exp_()


def _shown(bell: Float[Tensor, "k l"], features: Float[Tensor, "l d"]) -> Float[Tensor, "k d"]:
    """The half-space whose neurons have the largest entries, in units of its noise."""
    mean = bell.mean(1, keepdim=True)
    deviation = (bell.norm(dim=1, keepdim=True).square() / len(features) - mean.square()).clamp(
        min=0
    )
    noise = (deviation * features.numel()).sqrt().clamp(min=torch.finfo(bell.dtype).tiny)
    return (mean * features.sum(0) - bell @ features) / noise


def _sides(
    shown: Float[Tensor, "k d"],
    directions: Float[Tensor, "k b"],
    features: Float[Tensor, "l d"],
    link: Float[Tensor, "d b"],
    tie: float,
) -> Float[Tensor, "k l"]:
    """Pre-activations of the record, up to a factor: positive where neurons look active."""
    return normalize(shown + tie * normalize(directions @ link.T, dim=1), dim=1) @ features.T
