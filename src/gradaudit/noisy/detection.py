"""Neurons that every layer's own gradient leaves open, told by what they do to the first layer."""

from __future__ import annotations

import itertools

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.noisy.feedforward import FeedForward
from gradaudit.noisy.gates import Gates

# Log-odds beyond which a neuron's side is settled.
SETTLED_ODDS = 7.0
# Open neurons of a record whose effects are worked out at most: those that let through most.
MOST_OPEN = 1500
# A neuron is left at its expectation where that adds less than this part of the noise's variance to
# the first layer's delta; of the others, so many are told together at most.
NEGLIGIBLE, MOST_TOLD = 0.1, 400
# How often effects are worked out anew, as they depend on the neurons in between.
LINEARISATIONS = 2
# Of expectation propagation: a handful settles what can be told.
ROUNDS, DAMPING = 5, 0.7
# Least variance of an activity, and least precision of what the observation says of it.
LEAST_VARIANCE, LEAST_PRECISION = 1e-6, 1e-9


def detect_gates(
    network: FeedForward,
    gates: Gates,
    weights: Float[Tensor, " b"],
    chosen: list[int],
    control: Control,
) -> Float[Tensor, "b m"]:
    r"""Activation gradients at the first layer, the open neurons of all layers told together.

    To first order the activation gradient of a record is linear in the activity a of its neurons,
    :math:`g = V a + c`, and the first layer's gradient shows it, but for what lies in the span of
    all records' gradients, which is what the records themselves are fitted with. The posterior of
    the zeros and ones a is found by expectation propagation: every activity gets a Gaussian, such
    that these and the linear observation together have the moments that being 0 or 1 demands.

    Args:
        network: The layers.
        gates: As read off every layer alone.
        weights: What each record's gradient is multiplied by in the update.
        chosen: Numbers of the records to do it for.
        control: Of the time; records that it leaves none for stay as they are.

    Returns:
        The first layer's delta of every record's own loss.

    Source:
        Minka, "Expectation propagation for approximate Bayesian inference", 2001; for binary
        signals, Cespedes et al., IEEE Trans. Commun. 62(8), 2014.
    """
    first = gates.deltas[0].clone()
    if gates.first is None:
        return first
    span = torch.linalg.qr(gates.deltas[0].T).Q
    for record in chosen:
        if control.stop_reason() is not None:
            break
        weight = weights[record]
        first[record] = _detect(
            network,
            # The observation is the first layer's gradient, which must not count twice.
            [gates.sides[0][record], *(each[record] for each in gates.odds[1:])],
            [torch.sigmoid(each[record]) for each in gates.odds],
            gates.deltas[-1][record],
            (
                gates.first.entries[record] / weight,
                float(gates.first.noise[record] / weight.abs()),
                span,
            ),
        )
    return first


def _detect(
    network: FeedForward,
    odds: list[Tensor],
    activity: list[Tensor],
    slopes: Float[Tensor, " c"],
    observation: tuple[Float[Tensor, " m"], float, Float[Tensor, "m b"]],
) -> Float[Tensor, " m"]:
    """One record's delta, from what the first layer shows of it, that one's noise, and the span."""
    entries, noise, span = observation
    activity = [each.clone() for each in activity]
    delta, above = _backwards(network, slopes, activity)
    which = _open(odds, above)
    prior = torch.cat([each[w] for each, w in zip(odds, which, strict=True)])
    expected = torch.sigmoid(prior)
    for _ in range(LINEARISATIONS):
        effects = _effects(network, activity, above, which)
        shown = expected * (1 - expected) * effects.square().sum(0)
        matters = shown > NEGLIGIBLE * noise**2
        matters &= _largest(shown, MOST_TOLD)
        if not bool(matters.any()):
            break
        values = torch.cat([each[w] for each, w in zip(activity, which, strict=True)])
        effects = effects[:, matters]
        target = entries - delta + effects @ values[matters]
        design, seen = (part - span @ (span.T @ part) for part in (effects, target))
        values[matters] = _zeros_and_ones(design / noise, seen / noise, prior[matters])
        start = 0
        for layer, w in zip(activity, which, strict=True):
            layer[w] = values[start : start + len(w)]
            start += len(w)
        delta, above = _backwards(network, slopes, activity)
    return delta


def _open(odds: list[Tensor], above: list[Tensor]) -> list[Tensor]:
    """Numbers of every layer's neurons that are open, less those that let through least."""
    variance = [torch.sigmoid(each) * torch.sigmoid(-each) for each in odds]
    through = torch.cat([v * u.square() for v, u in zip(variance, above, strict=True)])
    near = torch.cat([each.abs() < SETTLED_ODDS for each in odds])
    kept = near & _largest(torch.where(near, through, -torch.ones_like(through)), MOST_OPEN)
    return [part.nonzero()[:, 0] for part in kept.tensor_split(_ends(odds))]


def _ends(parts: list[Tensor]) -> list[int]:
    return list(itertools.accumulate(len(part) for part in parts))[:-1]


def _largest(values: Tensor, count: int) -> Tensor:
    """Which are among the so many largest."""
    if len(values) <= count:
        return torch.ones_like(values, dtype=torch.bool)
    return values >= values.sort(descending=True).values[count - 1]


def _zeros_and_ones(
    design: Float[Tensor, "m k"], observed: Float[Tensor, " m"], odds: Float[Tensor, " k"]
) -> Float[Tensor, " k"]:
    """Probabilities that unknowns are 1 rather than 0, given linear observations of unit noise."""
    told = torch.sigmoid(odds)
    precision = (told * (1 - told)).clamp(min=LEAST_VARIANCE).reciprocal()
    mean = told.clone()
    gram, seen = design.T @ design, design.T @ observed
    for _ in range(ROUNDS):
        factor, failed = torch.linalg.cholesky_ex(gram + torch.diag(precision))
        if int(failed):
            return told
        covariance = torch.cholesky_inverse(factor)
        posterior = covariance @ (seen + precision * mean)
        whole = covariance.diagonal().reciprocal()
        # What the observation and the others say of each one.
        cavity = (whole - precision).clamp(min=LEAST_PRECISION)
        center = (posterior * whole - precision * mean) / cavity
        told = torch.sigmoid(odds + (center - 0.5) * cavity)
        moment = (told * (1 - told)).clamp(min=LEAST_VARIANCE).reciprocal()
        usable = moment > cavity
        new = torch.where(usable, moment - cavity, precision)
        shift = torch.where(usable, moment * told - cavity * center, precision * mean)
        before, precision = precision, DAMPING * new + (1 - DAMPING) * precision
        mean = (DAMPING * shift + (1 - DAMPING) * before * mean) / precision
    return told


def _backwards(
    network: FeedForward, slopes: Float[Tensor, " c"], activity: list[Tensor]
) -> tuple[Float[Tensor, " m"], list[Tensor]]:
    """The first layer's delta, and what reaches every layer's activation from above."""
    delta, above = slopes, []
    for number in range(len(activity) - 1, -1, -1):
        above.append(delta @ network.layers[number + 1].weight)
        delta = activity[number] * above[-1]
    return delta, above[::-1]


def _effects(
    network: FeedForward, activity: list[Tensor], above: list[Tensor], which: list[Tensor]
) -> Float[Tensor, "m k"]:
    """What the first layer's delta changes by with the activity of each open neuron."""
    columns = above[-1].new_zeros(len(above[-1]), 0)
    for number in range(len(activity) - 1, -1, -1):
        arriving, open_here = above[number], which[number]
        own = arriving.new_zeros(len(arriving), len(open_here))
        place = torch.arange(len(open_here), device=own.device)
        own[open_here, place] = arriving[open_here]
        if columns.shape[1]:
            columns = activity[number][:, None] * (network.layers[number + 1].weight.T @ columns)
            own = torch.cat([own, columns], dim=1)
        columns = own
    return columns
