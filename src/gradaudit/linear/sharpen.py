"""From a rough direction and its half-space to one sharp enough to be made exact."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize, pad

from gradaudit.linear.conjugate import conjugate_gradient
from gradaudit.linear.grams import BLOCK_ENTRIES, gather_rows
from gradaudit.linear.logistic import newton_step
from gradaudit.linear.null_space import null_vectors

# Every so many rounds those that are sharp already are taken out.
CHECK_EVERY = 5
SMALLEST_SPREAD = 1e-3
# Prior steepness of the logistic curve on a start's own half-space.
FIRST_STEEPNESS = 4.0
# The half-space is drawn towards the one that the direction itself implies, of this steepness and
# by this much for each dimension. Both were tried on CIFAR-10 at b = 256, m = 1000: 13 directions
# of 64 candidates, against 6 where it is drawn towards none; neither need be right within a factor
# of two. Newton steps are also limited in length.
STEEPNESS, RIDGE_EACH = 5.0, 0.25
LONGEST_STEP = 8.0
CURVATURE_FLOOR = 1e-4
# Subnormal numbers are a hundred times slower; in float32 they begin at exp(-87).
LARGEST_EXPONENT = 80.0
# Conjugate gradient steps towards a round's direction; the next round goes on from there.
NULL_STEPS = 8
# A direction is sharp when its smallest entries' rows have a null vector, by the eigenvalues of
# their Gram matrix relative to its norm.
SHARP = 1e-9


@dataclass(frozen=True)
class Annealing:
    """How fast the two parts of the model are made to come apart.

    Attributes:
        rounds: Of expectation and maximisation, at most; from an overlap of 0.9 five or ten do.
        first_spread: Of the inactive entries, in units of all entries.
        spread_factor: By which it falls a round at the least. Slower makes more of directions that
            overlap a true one by 0.7 only.
    """

    rounds: int = 30
    first_spread: float = 0.5
    spread_factor: float = 0.75


def sharpen(
    rows: Float[Tensor, "l b"],
    features: Float[Tensor, "l d"],
    directions: Float[Tensor, "k b"],
    sides: Float[Tensor, "k l"],
    *,
    zeros: int,
    link: Float[Tensor, "d b"],
    annealing: Annealing | None = None,
) -> Float[Tensor, "j b"]:
    r"""Expectation-maximisation of a two-part model of every direction's entries, all at once.

    Entry :math:`y_i = u_i \cdot q` is :math:`N(0, \epsilon^2)` where neuron i is inactive for the
    direction's record and :math:`N(0, v)` where it is active, and the neuron is active with
    probability :math:`\operatorname{logistic}(a_i \cdot p)`: the half-space enters as a prior that
    is learnt along with q. E: the posterior of being inactive, r. M: one ridge-regularised Newton
    step for p; q towards the smallest eigenvector of
    :math:`\sum_i (r_i / \epsilon^2 + (1 - r_i) / v)\, u_i u_i^T`, both by a few conjugate
    gradient steps from where they are; :math:`\epsilon` the weighted
    spread of the inactive entries, falling every round.

    Args:
        rows: Whitened rows of the sparse factor, float32 suffices.
        features: Whitened coordinates in which active neurons lie on one side of a hyperplane.
        directions: Unit vectors, overlapping a true direction by about 0.6 or more.
        sides: The half-space each was found with: positive where neurons look active.
        zeros: Entries that must have a common null vector for a direction to be sharp.
        link: From a direction to the half-space of its record, roughly (`pairs.record_link`).
        annealing: The schedule; None for the default.

    Returns:
        Those that became sharp, as unit vectors.

    Source:
        Ours: the half-space search's refinement. A spurious difference of records has no
        half-space, and loses the zeros that the prior does not explain.
    """
    if not len(directions):
        return directions
    design = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
    unit = rows / rows.norm(dim=1, keepdim=True)
    weights = design.new_zeros(len(directions), design.shape[1])
    # A direction's sign is free; that of the half-space it implies is not.
    agreement = ((directions @ link.T) * (sides @ features)).sum(1, keepdim=True)
    directions = torch.where(agreement < 0, -directions, directions)
    prior = torch.sigmoid(FIRST_STEEPNESS * sides / sides.std(dim=1, keepdim=True))
    annealing = annealing or Annealing()
    spread = design.new_full((len(directions), 1), annealing.first_spread)
    sharp: list[Tensor] = []
    for step in range(annealing.rounds):
        if not len(directions):
            break
        entries = (directions @ rows.T).square()
        prior = prior.clamp(1e-6, 1 - 1e-6)
        wide = ((entries * prior).sum(1, keepdim=True) / prior.sum(1, keepdim=True)).clamp(1e-12)
        inactive = _posterior(entries, prior, spread, wide)
        weights = newton_step(
            design,
            weights,
            1 - inactive,
            ridge=RIDGE_EACH * design.shape[1],
            anchor=pad(STEEPNESS * normalize(directions @ link.T, dim=1), (0, 1)),
            curvature_floor=CURVATURE_FLOOR,
            longest=LONGEST_STEP,
        )
        prior = torch.sigmoid(weights @ design.T)
        directions = _null_directions(
            rows, directions, inactive + (1 - inactive) * spread.square() / wide
        )
        entries = (directions @ rows.T).square()
        seen = ((entries * inactive).sum(1, keepdim=True) / inactive.sum(1, keepdim=True)).sqrt()
        spread = torch.minimum(seen, spread * annealing.spread_factor).clamp(SMALLEST_SPREAD)
        if (step + 1) % CHECK_EVERY == 0 or step + 1 == annealing.rounds:
            done, exact = sharp_directions(unit, directions, zeros)
            sharp.append(exact[done])
            keep = ~done
            directions, weights = directions[keep], weights[keep]
            prior, spread = prior[keep], spread[keep]
    return torch.cat(sharp) if sharp else directions


def sharp_directions(
    unit_rows: Float[Tensor, "l b"], directions: Float[Tensor, "k b"], zeros: int
) -> tuple[Bool[Tensor, " k"], Float[Tensor, "k b"]]:
    """Whether the rows of a direction's smallest entries have exactly one null vector, and it.

    Candidates for one direction have the same null vector, which tells repeats from twins.

    Args:
        unit_rows: Rows of unit norm.
        directions: Unit vectors.
        zeros: How many of the smallest entries to take, more than b - 1.
    """
    smallest = (directions @ unit_rows.T).abs().topk(zeros, dim=1, largest=False).indices
    wide = unit_rows.to(torch.float64)
    blocks = torch.split(smallest, max(1, BLOCK_ENTRIES // (zeros * directions.shape[1])))
    parts = [null_vectors(gather_rows(wide, block)) for block in blocks]
    vectors, first, second = (torch.cat(part) for part in zip(*parts, strict=True))
    return (first < SHARP) & (second > SHARP), vectors.to(directions)


def _posterior(entries: Tensor, prior: Tensor, spread: Tensor, wide: Tensor) -> Tensor:
    """Probability of being inactive, given the squared entry."""
    silent = torch.log1p(-prior) - entries / (2 * spread.square()) - torch.log(spread)
    firing = torch.log(prior) - entries / (2 * wide) - torch.log(wide) / 2
    return torch.sigmoid((silent - firing).clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT))


def _null_directions(rows: Tensor, directions: Tensor, precision: Tensor) -> Tensor:
    """Towards the smallest eigenvectors of weighted Gram matrices, without forming them.

    The correction d, orthogonal to q, that makes the weighted U (q + d) smallest.
    """

    def beside(vectors: Tensor) -> Tensor:
        return vectors - (vectors * directions).sum(1, keepdim=True) * directions

    def gram(vectors: Tensor) -> Tensor:
        return beside((precision * (vectors @ rows.T)) @ rows)

    step = conjugate_gradient(gram, -gram(directions), steps=NULL_STEPS)
    return normalize(directions + step, dim=1)
