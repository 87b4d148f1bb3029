"""Records as exactly as the noise allows, with the network's help."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.linear.blocks import applied, transposed_times
from gradaudit.noisy.detection import detect_gates
from gradaudit.noisy.feedforward import FeedForward
from gradaudit.noisy.gates import read_gates, side_errors
from gradaudit.noisy.weights import Weights, estimate_weights

# Rounds at most; two or three do.
ROUNDS = 8
# Part of the energy of a record's activation gradient that is wrong, from which on its open neurons
# are told together: 2 % in size. What less than that mixes into records is far below the noise.
DOUBTFUL = 5e-4
# Unexplained energy beyond the noise's, over that of the noise in the records, that is worth a
# further round.
WORTH = 0.05
# The same, above which the network is not believed: records would be a fifth worse than claimed.
LARGEST_EXCESS = 0.5
# What a further round must lower the unexplained energy by, as a part of the noise's, and how many
# may fail to.
LEAST_GAIN, BARREN_ROUNDS = 5e-4, 2


@dataclass(frozen=True, eq=False)
class Polished:
    """Records that explain a layer's gradient through the network.

    Attributes:
        records: One a row.
        entry_error: Standard error of an entry of each.
        side_error: Of a pre-activation of each, from what is mixed in of other records.
        activation_gradients: One record a column, as the network gives them.
        weights: What each record's gradient is multiplied by in the update.
        alike: Whether these are all the same, and so known better than any single record.
        floor: What `entry_error` would be if the activation gradients were known.
        misfit: What part of a record's activation gradient, as energy, is seen to be wrong where
            the first layer's gradient shows it.
        remainder: Energy that the records leave in the gradient over that of the noise: 1 where
            the network explains everything.
        rounds: How many led here.
    """

    records: Float[Tensor, "b n"]
    entry_error: Float[Tensor, " b"]
    side_error: Float[Tensor, " b"]
    activation_gradients: Float[Tensor, "m b"]
    weights: Float[Tensor, " b"]
    alike: bool
    floor: Float[Tensor, " b"]
    misfit: Float[Tensor, " b"]
    remainder: float
    rounds: int


def polish(
    network: FeedForward,
    records: Float[Tensor, "b n"],
    labels: Shaped[Tensor, " b"],
    weights: Float[Tensor, " b"],
    *,
    entry_error: Float[Tensor, " b"],
    level: float,
    generator: torch.Generator,
    control: Control,
) -> Polished | None:
    r"""Make records as exact as least squares with the true activation gradients would.

    The zeros of the activation gradients G determine them only to within noise, and what they
    leave open mixes records. The network leaves nothing open: given which neurons are active, G
    follows from the records and their labels, and it depends on their errors hardly at all. So, in
    turns: records give pre-activations; these, and every layer's gradient, say which neurons are
    active (`read_gates`), hence G; and least squares gives the records, :math:`X^T = G^+ \nabla_W`,
    with an error of :math:`\sigma \sqrt{[(G^T G)^{-1}]_{jj}}` in every entry.

    Args:
        network: The attacked layer and those that follow.
        records: Of the right batch, each to within an error.
        labels: One a record.
        weights: What each record's gradient is multiplied by in the update, roughly.
        entry_error: Standard error of an entry of each record.
        level: Standard deviation of the noise in an entry of the gradient.
        generator: Of simulated errors.
        control: Of the time.

    Returns:
        The best round's; None where no round gives records, or where what even the best one leaves
        shows that its neurons, labels or weights are not right.

    Source:
        Ours.
    """
    best, barren = None, 0
    for count in range(1, ROUNDS + 1):
        passed = network.run(records)
        slopes = network.slopes(passed.outputs, labels)
        errors = side_errors(network, passed, entry_error, generator)
        gates = read_gates(network, passed, slopes, weights=weights, errors=errors, level=level)
        found = _solve(network, gates.deltas, weights=weights, level=level, count=count)
        if found is None:
            break
        weights = found.weights
        doubtful = (found.misfit > DOUBTFUL).nonzero()[:, 0].tolist()
        # The first round's records are not yet exact enough for it.
        if doubtful and count > 1 and _excess(network, found) > WORTH:
            first = detect_gates(network, gates, weights, doubtful, control)
            told = (first, *gates.deltas[1:])
            again = _solve(network, told, weights=weights, level=level, count=count)
            if again is not None and again.remainder < found.remainder:
                found, weights = again, again.weights
        gain = best.remainder - found.remainder if best else torch.inf
        best = found if best is None or gain > 0 else best
        barren = 0 if gain > LEAST_GAIN else barren + 1
        if _excess(network, best) < WORTH or barren == BARREN_ROUNDS:
            break
        if control.stop_reason() is not None:
            break
        records, entry_error = found.records, found.entry_error
    return best if best is not None and _excess(network, best) <= LARGEST_EXCESS else None


def _excess(network: FeedForward, found: Polished) -> float:
    """Energy left beyond that of the noise, over the noise in as many entries as records have."""
    size = len(found.records)
    return (found.remainder - 1) * (network.layers[0].shape[0] - size) / size


def _solve(
    network: FeedForward,
    deltas: tuple[Tensor, ...],
    *,
    weights: Float[Tensor, " b"],
    level: float,
    count: int,
) -> Polished | None:
    """Records by least squares, and the error of each."""
    layer = network.layers[0]
    told: Weights | None = Weights(weights, torch.zeros_like(weights), alike=False)
    if layer.bias_gradient is not None:
        pairs = zip(deltas[1:], network.layers[1:], strict=True)
        later = [(d, each.bias_gradient) for d, each in pairs if each.bias_gradient is not None]
        told = estimate_weights(deltas[0], layer.bias_gradient, level, later)
    if told is None:
        return None
    gradients = deltas[0] * told.values[:, None]
    observed = layer.weight_gradient
    factor, failed = torch.linalg.cholesky_ex(gradients @ gradients.T)
    if int(failed) or not bool(torch.isfinite(factor).all()):
        return None
    records = torch.cholesky_solve(transposed_times(observed, gradients.T).T, factor)
    if not bool(torch.isfinite(records).all()):
        return None
    floor = torch.cholesky_inverse(factor).diagonal().clamp(min=0)
    rest = observed - gradients.T @ records
    outside = len(observed) - len(records)
    freedom = outside * observed.shape[1]
    remainder = float(rest.square().sum()) / freedom / level**2
    # What is left, told apart into records, is what their gradients are off outside of their span.
    inverse = torch.linalg.pinv(records)
    noise = level**2 * inverse.square().sum(0)
    off = ((rest @ inverse).square().sum(0) / outside - noise).clamp(min=0)
    # Inside of the span they are off by as much, which mixes records; a wrong weight scales one.
    scale, sides = told.relative_error.square(), applied(layer.weight, records).square().mean(1)
    mixed = floor * (off @ records.square().mean(1)) + scale * records.square().mean(1)
    side = floor * (off @ sides) + scale * sides
    return Polished(
        records,
        (level**2 * floor + mixed).sqrt(),
        side.sqrt(),
        gradients.T,
        told.values,
        told.alike,
        level * floor.sqrt(),
        off * len(observed) / gradients.square().sum(1),
        remainder,
        count,
    )
