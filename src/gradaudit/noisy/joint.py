"""All directions together: each one's half-space is that of the record it leads to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.linear.blocks import row_norms
from gradaudit.linear.problem import Problem
from gradaudit.noisy.expectation import UNCERTAIN, posterior, smallest, two_part_evidence

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
        settled: Whether the rounds came to rest.
    """

    directions: Float[Tensor, "b b"]
    mixtures: Float[Tensor, "b b"]
    activity: Float[Tensor, "b m"]
    precision: Float[Tensor, "b m"]
    evidence: Float[Tensor, " b"]
    temperature: Float[Tensor, " b"]
    strain: Float[Tensor, " b"]
    settled: bool


def fit_jointly(problem: Problem, directions: Float[Tensor, "b b"]) -> Fit | None:
    r"""Refine a complete set of directions under noise.

    In turns: all directions give all records, :math:`X^T = Q^{-1} S V^T`, the noisy bias gradient
    their scale by least squares; a record gives the pre-activations :math:`z = W x + \beta`, whose
    error is known, and so each neuron's probability of being active, :math:`\Phi(z / \sigma_z)`
    (with a larger error where the entries contradict that one); with the entries' own likelihood
    that weighs the rows; and each direction is the one whose weighted entries are smallest beside
    their noise.

    Args:
        problem: The layer, with the noise's level in `Problem.sparse_noise`.
        directions: One for every record, up to scale.

    Returns:
        The fit, or None where the directions do not determine records.

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
    activity = posterior(squares, torch.full_like(squares, 0.5), narrow)[0]
    precision, settled = activity, False
    evidence = temperature = strain = narrow[:, 0]
    for count in range(ROUNDS):
        scaled = _scaled(problem, current)
        if scaled is None:
            return None
        gradients = scaled @ left.T
        inverse, singular = torch.linalg.inv_ex(scaled.T)
        covariance, degenerate = torch.linalg.inv_ex(gradients @ gradients.T)
        # Two directions that are one, as the search may leave of a gradient that is mostly zeros.
        if bool(singular) or bool(degenerate):
            return None
        mixtures = inverse * values
        # Of a record's entry: what least squares with these gradients leaves.
        error = level * covariance.diagonal().clamp(min=0).sqrt()
        bias = 0.0 if problem.layer.bias is None else problem.layer.bias
        sides = mixtures @ problem.preactivation_map.T + bias
        spread = error[:, None] * weight_norms + torch.finfo(sides.dtype).tiny
        prior, temperature = _half_space(sides / spread, activity)
        narrow = current.square() @ noise[:, None]
        squares = (current @ rows.T).square()
        activity, wide = posterior(squares, prior, narrow)
        evidence = two_part_evidence(squares, prior, narrow, wide)
        silent = (sides < -STRAIN_SIGMAS * spread).to(squares)
        strain = ((squares * silent).sum(1) / silent.sum(1).clamp(min=1) / narrow[:, 0]).sqrt()
        precision = (1 - activity) + activity * narrow / wide
        before, current = current, smallest(rows, precision, noise, current)
        # In units of the noise's own metric every direction is about equally uncertain.
        moved = ((current - before) / values).norm(dim=1) / (current / values).norm(dim=1)
        if float(moved.max()) < SETTLED:
            settled = True
            break
        if count >= HOT_AFTER and float(temperature.median()) > HOT:
            break
    scaled = _scaled(problem, current)
    if scaled is None:
        return None
    return Fit(
        scaled,
        torch.linalg.inv(scaled.T) * values,
        activity,
        precision,
        evidence,
        temperature,
        strain,
        settled,
    )


def _half_space(
    margins: Float[Tensor, "b m"], activity: Float[Tensor, "b m"]
) -> tuple[Float[Tensor, "b m"], Float[Tensor, " b"]]:
    """The probability of being active, at the temperature that suits a record's entries best.

    Args:
        margins: Pre-activations over their predicted error.
        activity: What the entries say.
    """
    tried = torch.tensor(TEMPERATURES, device=margins.device).to(margins)[:, None, None]
    priors = torch.special.ndtr(margins / tried).clamp(UNCERTAIN, 1 - UNCERTAIN)
    fits = (activity * torch.log(priors) + (1 - activity) * torch.log1p(-priors)).sum(2)
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
