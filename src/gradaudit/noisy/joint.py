"""All directions together: each one's half-space is that of the record it leads to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.blocks import row_norms
from gradaudit.linear.problem import Problem
from gradaudit.noisy.expectation import (
    UNCERTAIN,
    posterior,
    smallest,
    two_part_evidence,
    two_part_likelihood,
)

# Rounds at most; about ten do, and the change of the directions says when.
ROUNDS, SETTLED = 40, 1e-6
# Directions are solved for only where they are this independent (inverse condition number).
INDEPENDENT = 1e-9
# Errors of pre-activations that are tried, in units of what the noise predicts. A single wrong
# direction shifts all records a little, and none must then be too sure of its half-space.
TEMPERATURES = tuple(2.0**k for k in range(9))
# Standard errors from zero of a neuron that is clearly inactive.
CLEAR_SIGMAS = 3.0
# The same, where a single active neuron among them would condemn the record. The predicted error
# lacks that of the other directions, so among a few hundred neurons one at 3 is often active: right
# records then showed a strain of 10 to 18. From 5 on they show 0.8 to 1.2.
STRAIN_SIGMAS = 6.0
# A typical temperature above this after some rounds: a direction is wrong, and no more rounds help.
HOT, HOT_AFTER = 4.0, 8
# Rounds after the best one: later ones have wandered off.
PATIENCE = 10


@dataclass(frozen=True, eq=False)
class Fit:
    r"""Records and activation gradients that fit a noisy gradient.

    Attributes:
        directions: Columns of Q, one a row, scaled so that :math:`G = U Q`.
        mixtures: Rows of :math:`Q^{-1} S`: a record is one of them times :math:`V^T`.
        activity: Probability that neuron i is active for record j.
        precision: Weight of neuron i's row in the fit of record j.
        evidence: As in `Sharpened`, with the half-space of the record itself.
        temperature: Of record j's half-space: its error over the one that the noise predicts.
            Near 1 where every direction is right.
        strain: Root mean square entry of the neurons that record j clearly leaves inactive, over
            the noise: 1 for a right direction, 5 and more for one in which others are mixed.
        rounds: That led here.
    """

    directions: Float[Tensor, "b b"]
    mixtures: Float[Tensor, "b b"]
    activity: Float[Tensor, "b m"]
    precision: Float[Tensor, "b m"]
    evidence: Float[Tensor, " b"]
    temperature: Float[Tensor, " b"]
    strain: Float[Tensor, " b"]
    rounds: int


def fit_jointly(problem: Problem, directions: Float[Tensor, "b b"]) -> Fit | None:
    r"""Refine a complete set of directions under noise.

    In turns: all directions give all records, :math:`X^T = Q^{-1} S V^T`, the noisy bias gradient
    their scale by least squares; a record gives the pre-activations :math:`z = W x + \beta`, whose
    error is known, and so each neuron's probability of being active, :math:`\Phi(z / \sigma_z)`
    (with a larger error where the entries contradict that one); with the entries' own likelihood
    that weighs the rows; and each direction is the one whose weighted entries are smallest beside
    their noise. A direction's step takes no account of what it does to the other records'
    half-spaces, so that records that resemble each other may wander off into mixtures, from the
    very truth: the round counts in which the entries are likeliest.

    Args:
        problem: The layer, with the noise's level in `Problem.sparse_noise`.
        directions: One for every record, up to scale.

    Returns:
        The best round's fit, or None where the directions do not determine records.

    Source:
        Ours.
    """
    values, left = problem.factors.values, problem.factors.left
    level = float(problem.sparse_noise.mean())
    rows = left * len(left) ** 0.5
    noise = level**2 * len(left) / values.square()
    weight_norms = row_norms(problem.layer.weight).to(left)
    current = torch.nn.functional.normalize(directions, dim=1)
    squares = (current @ rows.T).square()
    narrow = current.square() @ noise[:, None]
    activity, wide = posterior(squares, torch.full_like(squares, 0.5), narrow)
    best, most, since = None, -math.inf, 0
    for count in range(1, ROUNDS + 1):
        scaled = _scaled(problem, current)
        if scaled is None:
            break
        gradients = scaled @ left.T
        inverse, singular = torch.linalg.inv_ex(scaled.T)
        covariance, degenerate = torch.linalg.inv_ex(gradients @ gradients.T)
        # Two directions that are one, as the search may leave of a gradient that is mostly zeros.
        if bool(singular) or bool(degenerate):
            break
        mixtures = inverse * values
        # Of a record's entry: what least squares with these gradients leaves.
        error = level * covariance.diagonal().clamp(min=0).sqrt()
        bias = 0.0 if problem.layer.bias is None else problem.layer.bias
        sides = mixtures @ problem.preactivation_map.T + bias
        spread = error[:, None] * weight_norms + torch.finfo(sides.dtype).tiny
        narrow = current.square() @ noise[:, None]
        squares = (current @ rows.T).square()
        prior, temperature = _half_space(sides / spread, squares, narrow, wide)
        activity, wide = posterior(squares, prior, narrow)
        evidence = two_part_evidence(squares, prior, narrow, wide)
        silent = (sides < -STRAIN_SIGMAS * spread).to(squares)
        strain = ((squares * silent).sum(1) / silent.sum(1).clamp(min=1) / narrow[:, 0]).sqrt()
        precision = (1 - activity) + activity * narrow / wide
        total, since = float(evidence.sum()), since + 1
        if total > most:
            told = (activity, precision, evidence, temperature, strain)
            best, most, since = Fit(scaled, mixtures, *told, count), total, 0
        before, current = current, smallest(rows, precision, noise, current)
        # In units of the noise's own metric every direction is about equally uncertain.
        moved = ((current - before) / values).norm(dim=1) / (current / values).norm(dim=1)
        hot = count > HOT_AFTER and float(temperature.median()) > HOT
        if float(moved.max()) < SETTLED or since == PATIENCE or hot:
            break
    return best


def _half_space(
    margins: Float[Tensor, "b m"],
    squares: Float[Tensor, "b m"],
    narrow: Float[Tensor, "b 1"],
    wide: Float[Tensor, "b 1"],
) -> tuple[Float[Tensor, "b m"], Float[Tensor, " b"]]:
    """The probability of being active, at the temperature at which the entries are likeliest.

    Their own likelihood, and not that of the activity they seemed to show before: small entries of
    active neurons, which then passed for inactive, would keep a right half-space from being
    believed.

    Args:
        margins: Pre-activations over their predicted error.
        squares: Of the entries.
        narrow: Variance of inactive entries.
        wide: Of active ones.
    """
    tried = torch.tensor(TEMPERATURES, device=margins.device).to(margins)[:, None, None]
    priors = torch.special.ndtr(margins / tried).clamp(UNCERTAIN, 1 - UNCERTAIN)
    fits = two_part_likelihood(squares, priors, narrow, wide).sum(2)
    best = fits.argmax(0)
    return priors[best, torch.arange(len(margins), device=margins.device)], tried[best, 0, 0]


def _scaled(problem: Problem, directions: Float[Tensor, "b b"]) -> Float[Tensor, "b b"] | None:
    """Directions scaled to give activation gradients, from the bias gradient; None if dependent."""
    spectrum = torch.linalg.svdvals(directions)
    if not bool(torch.isfinite(spectrum).all()) or float(spectrum[-1]) < INDEPENDENT * float(
        spectrum[0]
    ):
        return None
    observed = problem.layer.bias_gradient
    assert observed is not None  # noqa: S101 - a search under noise asks for it
    return directions * scale_by_bias(directions @ problem.factors.left.T, observed)[:, None]


def scale_by_bias(
    entries: Float[Tensor, "b m"], bias_gradient: Float[Tensor, " m"]
) -> Float[Tensor, " b"]:
    r"""What each record's entries are to be multiplied by: :math:`\sum_j s_j g_j` is the bias's."""
    # Not by torch.linalg.lstsq, whose last digit depends on where in memory the entries lie.
    factor = torch.linalg.qr(entries.T)
    scale = torch.linalg.solve_triangular(
        factor.R, factor.Q.T @ bias_gradient[:, None], upper=True
    )[:, 0]
    return torch.where(scale == 0, torch.finfo(scale.dtype).tiny, scale)
