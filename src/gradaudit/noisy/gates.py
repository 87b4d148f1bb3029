"""Which neurons of every layer are active for a record, read off the layers' own gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.noisy.feedforward import FeedForward, Pass
from gradaudit.update import LinearLayer

# Draws of the records' errors that show what becomes of them in later layers: of hundreds of
# neurons, a few draws give the spread to some percent.
DRAWS = 4
# Pre-activations are this much less certain than that, since the records' errors are estimates.
CAUTION = 1.5
# Standard errors from zero at which a neuron's side is sure enough to measure a reading's error.
SURE_SIGMAS = 4.0


@dataclass(frozen=True, eq=False)
class Reading:
    """One layer's gradient, told apart into records.

    Attributes:
        entries: Least squares for dL/dZ, one record a row.
        noise: Standard error of a record's entries.
    """

    entries: Float[Tensor, "b m"]
    noise: Float[Tensor, " b"]


@dataclass(frozen=True, eq=False)
class Gates:
    r"""What flows back through the layers for each record, from a loss of its own.

    Attributes:
        deltas: Of every layer, :math:`\\partial \\ell_j / \\partial z_j`, one record a row.
        odds: Log-odds of a neuron being active, of every layer but the last.
        sides: The same by the records' pre-activations alone.
        first: What the first layer's gradient says of each record; None if it tells none apart.
    """

    deltas: tuple[Tensor, ...]
    odds: tuple[Tensor, ...]
    sides: tuple[Tensor, ...]
    first: Reading | None


def read_layer(layer: LinearLayer, inputs: Float[Tensor, "b d"], level: float) -> Reading | None:
    r"""Solve :math:`\nabla_W = \Delta^T H` for :math:`\Delta`, given the layer's inputs H.

    Args:
        layer: With its observed gradients.
        inputs: One record a row.
        level: Standard deviation of the noise in an entry.

    Returns:
        None where the inputs do not tell the records apart.
    """
    squares, products = inputs @ inputs.T, inputs @ layer.weight_gradient.T
    if layer.bias_gradient is not None:
        # One more input, which is 1 for every record.
        squares, products = squares + 1, products + layer.bias_gradient
    factor, failed = torch.linalg.cholesky_ex(squares)
    if int(failed) or not bool(torch.isfinite(factor).all()):
        return None
    entries = torch.cholesky_solve(products, factor)
    return Reading(entries, level * torch.cholesky_inverse(factor).diagonal().sqrt())


def side_errors(
    network: FeedForward,
    passed: Pass,
    entry_error: Float[Tensor, " b"],
    generator: torch.Generator,
) -> Float[Tensor, "l b"]:
    """Standard error of each record's pre-activations, one layer a row.

    Args:
        network: The layers.
        passed: The records' pass.
        entry_error: Standard error of an entry of each record.
        generator: Of errors that are drawn.
    """
    records = passed.inputs[0]
    squares = torch.zeros(len(passed.sides), len(records)).to(records)
    for _ in range(DRAWS):
        drawn = torch.randn(
            records.shape, generator=generator, dtype=records.dtype, device=records.device
        )
        moved = network.run(records + entry_error[:, None] * drawn)
        pairs = zip(moved.sides, passed.sides, strict=True)
        squares += torch.stack([(other - side).square().mean(1) for other, side in pairs])
    return CAUTION * (squares / DRAWS).sqrt()


def read_gates(
    network: FeedForward,
    passed: Pass,
    slopes: Float[Tensor, "b c"],
    *,
    weights: Float[Tensor, " b"],
    errors: Float[Tensor, "l b"],
    level: float,
) -> Gates:
    r"""Work backwards from the outputs, deciding layer by layer which neurons let through.

    Above layer l, :math:`u = W_{l+1}^T \delta_{l+1}` is known; neuron i passes on all of it or
    nothing. The layer's own gradient, told apart into records, shows which, to within noise: that
    likelihood, with the record's own pre-activation as the prior, gives the probability r of being
    active, and :math:`\delta_l = r\,u`. Where neither tells, r between 0 and 1 is the value with
    the least expected error.

    Args:
        network: The layers.
        passed: The records' pass.
        slopes: Of each record's own loss at the outputs.
        weights: What each record's gradient is multiplied by in the update.
        errors: Of pre-activations, as `side_errors` has them.
        level: Standard deviation of the noise in an entry.

    Source:
        Ours.
    """
    delta, deltas, told, priors, reading = slopes, [slopes], [], [], None
    for number in range(len(network.layers) - 2, -1, -1):
        layer, side = network.layers[number], passed.sides[number]
        above = delta @ network.layers[number + 1].weight
        margin = side / errors[number][:, None].clamp(min=torch.finfo(side.dtype).tiny)
        odds = torch.special.log_ndtr(margin) - torch.special.log_ndtr(-margin)
        priors.append(odds)
        reading = read_layer(layer, passed.inputs[number], level)
        if reading is not None:
            entries, expected = reading.entries, weights[:, None] * above
            noise = torch.maximum(reading.noise, _spread(entries, expected, margin))
            reading = Reading(entries, noise)
            gain = (entries.square() - (entries - expected).square()) / (2 * noise[:, None] ** 2)
            odds = odds + gain
        told.append(odds)
        delta = torch.sigmoid(odds) * above
        deltas.append(delta)
    return Gates(tuple(deltas[::-1]), tuple(told[::-1]), tuple(priors[::-1]), reading)


def _spread(
    entries: Float[Tensor, "b m"], expected: Float[Tensor, "b m"], margin: Float[Tensor, "b m"]
) -> Float[Tensor, " b"]:
    """The error that a record's reading shows on neurons whose side is sure."""
    silent = (margin < -SURE_SIGMAS).to(entries)
    active = (margin > SURE_SIGMAS).to(entries)
    rest = silent * entries.square() + active * (entries - expected).square()
    return (rest.sum(1) / (silent + active).sum(1).clamp(min=1)).sqrt()
