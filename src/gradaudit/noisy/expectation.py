"""Directions made as sharp as the noise allows, each with a half-space of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize, pad

from gradaudit.linear.grams import weighted_grams
from gradaudit.linear.logistic import newton_step

# Prior steepness of the logistic curve on a start's own half-space.
FIRST_STEEPNESS = 4.0
# The half-space is drawn towards the one that the direction itself implies: of this steepness, by
# this much for each dimension (as in `linear.sharpen`, where both were measured).
STEEPNESS, RIDGE_EACH = 5.0, 0.25
LONGEST_STEP, CURVATURE_FLOOR = 8.0, 1e-4
# The spread of inactive entries beyond the noise, in units of all entries: at first, and what it
# is multiplied by in a round. It ends where its square is this part of the noise's least variance.
FIRST_SPREAD, SPREAD_FACTOR, LAST_SHARE = 0.5, 0.7, 0.01
# No neuron is ever certain: a mistaken one must be able to change its mind.
UNCERTAIN = 1e-6
# Active entries are wider than inactive ones by this much at least, or the two parts would merge.
LEAST_WIDTH = 1.5
# Steps of inverse iteration a round; the next round goes on from there.
INVERSE_STEPS = 2
# Of the matrices that are inverted: keeps a direction that has converged from dividing by zero.
SHIFT = 1e-10


@dataclass(frozen=True, eq=False)
class Sharpened:
    """Directions with what speaks for them.

    Attributes:
        directions: Unit vectors, in coordinates in which all entries together are of size 1.
        activity: Probability that each neuron is active for the direction's record.
        evidence: Mean log-likelihood of an entry under the two-part model less that under a
            single normal distribution, in nats.
    """

    directions: Float[Tensor, "k r"]
    activity: Float[Tensor, "k m"]
    evidence: Float[Tensor, " k"]

    def subset(self, which: Tensor) -> Sharpened:
        """Some of them."""
        return Sharpened(self.directions[which], self.activity[which], self.evidence[which])


def sharpen_under_noise(
    rows: Float[Tensor, "m r"],
    noise: Float[Tensor, " r"],
    features: Float[Tensor, "m d"],
    directions: Float[Tensor, "k r"],
    *,
    sides: Float[Tensor, "k m"],
    link: Float[Tensor, "d r"],
) -> Sharpened:
    r"""Expectation-maximisation of a two-part model of every direction's entries, down to noise.

    Entry :math:`y_i = u_i \cdot q` is :math:`N(0, \epsilon^2 + q^T N q)` where neuron i is inactive
    for the direction's record and :math:`N(0, v)` where it is active. N is the noise's covariance
    in a row; :math:`\epsilon` is what the direction itself is still off, and falls from round to
    round. E: the posterior r of being inactive, with a logistic half-space as the prior. M: a
    Newton step for that half-space, and

    .. math:: q = \arg\min_q \frac{q^T [\sum_i w_i u_i u_i^T]\, q}{q^T (\epsilon^2 I + N)\, q},
        \qquad w_i = r_i + (1 - r_i)(\epsilon^2 + q^T N q) / v,

    by inverse iteration: the maximum of the likelihood where only the noise is left.

    Args:
        rows: Of the sparse factor, scaled so that :math:`\sum_i u_i u_i^T = m I`.
        noise: Diagonal of N in these coordinates.
        features: Whitened coordinates in which active neurons lie on one side of a hyperplane.
        directions: Overlapping a true one by about 0.6 or more.
        sides: The half-space each was found with: positive where neurons look active.
        link: From a direction to the half-space of its record, roughly.

    Source:
        Ours.
    """
    design = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
    directions = normalize(directions, dim=1)
    agreement = ((directions @ link.T) * (sides @ features)).sum(1, keepdim=True)
    directions = torch.where(agreement < 0, -directions, directions)
    weights = design.new_zeros(len(directions), design.shape[1])
    prior = torch.sigmoid(FIRST_STEEPNESS * sides / sides.std(dim=1, keepdim=True))
    spread, last = FIRST_SPREAD, (LAST_SHARE * float(noise.min())) ** 0.5
    while True:
        prior = prior.clamp(UNCERTAIN, 1 - UNCERTAIN)
        narrow = spread**2 + directions.square() @ noise[:, None]
        activity, wide = posterior((directions @ rows.T).square(), prior, narrow)
        weights = newton_step(
            design,
            weights,
            activity,
            ridge=RIDGE_EACH * features.shape[1],
            anchor=pad(STEEPNESS * normalize(directions @ link.T, dim=1), (0, 1)),
            curvature_floor=CURVATURE_FLOOR,
            longest=LONGEST_STEP,
        )
        prior = torch.sigmoid(weights @ design.T)
        precision = (1 - activity) + activity * narrow / wide
        directions = smallest(rows, precision, spread**2 + noise, directions)
        if spread <= last:
            break
        spread *= SPREAD_FACTOR
    prior = prior.clamp(UNCERTAIN, 1 - UNCERTAIN)
    squares = (directions @ rows.T).square()
    narrow = directions.square() @ noise[:, None]
    activity, wide = posterior(squares, prior, narrow)
    return Sharpened(directions, activity, two_part_evidence(squares, prior, narrow, wide))


def two_part_evidence(
    squares: Float[Tensor, "k m"],
    prior: Float[Tensor, "k m"],
    narrow: Float[Tensor, "k 1"],
    wide: Float[Tensor, "k 1"],
) -> Float[Tensor, " k"]:
    """Mean log-likelihood of an entry under the two-part model less that under a single normal.

    Args:
        squares: Of the entries.
        prior: Probability of being active, from the half-space.
        narrow: Variance of inactive entries.
        wide: Of active ones.
    """
    both = two_part_likelihood(squares, prior, narrow, wide)
    return (both - _log_normal(squares, squares.mean(1, keepdim=True))).mean(1)


def two_part_likelihood(
    squares: Float[Tensor, "k m"], prior: Tensor, narrow: Float[Tensor, "k 1"], wide: Tensor
) -> Tensor:
    """Log-likelihood of each entry under the two-part model, but for the constant.

    Args:
        squares: Of the entries.
        prior: Probability of being active, from the half-space: (k, m), or several (..., k, m).
        narrow: Variance of inactive entries.
        wide: Of active ones, (k, 1) or (..., k, 1).
    """
    return torch.logaddexp(
        torch.log1p(-prior) + _log_normal(squares, narrow),
        torch.log(prior) + _log_normal(squares, wide),
    )


def posterior(
    squares: Float[Tensor, "k m"], prior: Float[Tensor, "k m"], narrow: Float[Tensor, "k 1"]
) -> tuple[Float[Tensor, "k m"], Float[Tensor, "k 1"]]:
    """Probability of being active given squared entries, and the variance of active entries.

    Args:
        squares: Of the entries.
        prior: Probability of being active, from the half-space.
        narrow: Variance of inactive entries.
    """
    wide = (squares * prior).sum(1, keepdim=True) / prior.sum(1, keepdim=True)
    wide = torch.maximum(wide, LEAST_WIDTH * narrow)
    odds = torch.log(prior) - torch.log1p(-prior)
    odds = odds + _log_normal(squares, wide) - _log_normal(squares, narrow)
    return torch.sigmoid(odds), wide


def smallest(
    rows: Float[Tensor, "m r"],
    precision: Float[Tensor, "k m"],
    metric: Float[Tensor, " r"],
    directions: Float[Tensor, "k r"],
) -> Float[Tensor, "k r"]:
    """Towards the direction whose weighted entries are smallest in a metric, for every weighting.

    Args:
        rows: Of the sparse factor.
        precision: Weights of the rows.
        metric: Diagonal of the quadratic form that entries are compared with.
        directions: Where to start.

    Returns:
        Unit vectors, of the same sign as before.
    """
    scale = metric.rsqrt()
    scaled, current = rows * scale, directions / scale
    result = torch.empty_like(current)
    eye = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    for which, gram in weighted_grams(scaled, precision):
        size = gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
        factor, failed = torch.linalg.cholesky_ex(gram + SHIFT * size * eye)
        vector = current[which, :, None]
        for _ in range(INVERSE_STEPS):
            vector = torch.cholesky_solve(vector, factor)
            vector = vector / vector.norm(dim=1, keepdim=True)
        # Weights that overflow determine no direction: it stays where it was.
        lost = (failed != 0) | ~torch.isfinite(vector).all(dim=1)[:, 0]
        result[which] = torch.where(lost[:, None], current[which], vector[..., 0])
    result = normalize(result * scale, dim=1)
    return result * torch.sign((result * directions).sum(1, keepdim=True))


def _log_normal(squares: Tensor, variance: Tensor) -> Tensor:
    """Log density of N(0, variance) but for the constant."""
    return -(torch.log(variance) + squares / variance) / 2
