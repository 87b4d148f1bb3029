"""Records better than the first layer alone could give them: what the later layers add."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.noisy.feedforward import FeedForward
from gradaudit.noisy.gates import read_gates, side_errors
from gradaudit.noisy.polish import Polished

# Energy that the records leave in every layer's gradient, over that of the noise, up to which the
# neurons are right there; with so many standard errors of the energy of so many entries of noise.
LARGEST_REMAINDER, REMAINDER_SIGMAS = 1.02, 4.0
# A layer as narrow as this beside its input adds less than a fifth of a decibel.
LEAST_WIDTH = 0.1
# Conjugate gradients: information of later layers is some thirty times that of the first at most.
ITERATIONS, CONVERGED = 60, 1e-3


class _Normal:
    r"""The normal equations of all layers' gradients for the records, at fixed neurons.

    Behind fixed neurons a layer's inputs :math:`H_l` are linear in the records, and its gradient is
    :math:`\Delta_l^T H_l` with noise; so that the records' precision is
    :math:`\sum_l J_l^T (\Delta_l \Delta_l^T) J_l / \sigma^2` with :math:`J_l` from records to
    :math:`H_l`.
    """

    def __init__(self, network: FeedForward, activity: list[Tensor], deltas: list[Tensor]) -> None:
        self._network, self._activity = network, activity
        self.grams = [delta @ delta.T for delta in deltas]
        self._first, failed = torch.linalg.cholesky_ex(self.grams[0])
        finite = all(bool(torch.isfinite(gram).all()) for gram in self.grams)
        self.usable = not int(failed) and finite

    def inputs(self, records: Tensor, *, biases: bool) -> list[Tensor]:
        """Of every layer, without the biases' part if it is differences that go through."""
        found = [records]
        for layer, active in zip(self._network.layers, self._activity, strict=False):
            side = found[-1] @ layer.weight.T
            if biases and layer.bias is not None:
                side = side + layer.bias
            found.append(active * side)
        return found

    def back(self, parts: list[Tensor]) -> Float[Tensor, "b n"]:
        """Sum of what every layer's inputs say, by the adjoint."""
        total = parts[-1]
        for number in range(len(parts) - 2, -1, -1):
            layer = self._network.layers[number]
            total = parts[number] + (self._activity[number] * total) @ layer.weight
        return total

    def apply(self, change: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """The matrix times a change of the records."""
        inputs = self.inputs(change, biases=False)
        return self.back([gram @ part for gram, part in zip(self.grams, inputs, strict=True)])

    def solve(self, right: Float[Tensor, "b n"], control: Control) -> Float[Tensor, "b n"] | None:
        """By conjugate gradients, with the first layer's part as the preconditioner."""
        found, rest = torch.zeros_like(right), right.clone()
        scaled = torch.cholesky_solve(rest, self._first)
        direction, size = scaled, float((rest * scaled).sum())
        limit = CONVERGED**2 * size
        for _ in range(ITERATIONS):
            if size <= limit:
                return found
            if control.stop_reason() is not None:
                break
            product = self.apply(direction)
            curvature = float((direction * product).sum())
            if not curvature > 0:
                break
            step = size / curvature
            found, rest = found + step * direction, rest - step * product
            scaled = torch.cholesky_solve(rest, self._first)
            before, size = size, float((rest * scaled).sum())
            direction = scaled + (size / before) * direction
        return None


def use_all_layers(
    network: FeedForward,
    polished: Polished,
    labels: Shaped[Tensor, " b"],
    *,
    level: float,
    generator: torch.Generator,
    control: Control,
) -> Polished:
    r"""Fit the records to the gradients of all layers at once.

    A later layer's gradient shows its inputs, and more exactly than the first layer's shows the
    records, as what flows back grows from layer to layer; and those are linear in the records
    where it is known which neurons are active. What it adds lies in the span of the active
    neurons' weights: little for a layer that is much narrower than its input, and up to several
    decibels for a wide one.

    Args:
        network: The attacked layer and those that follow.
        polished: At the first layer's own floor.
        labels: One a record.
        level: Standard deviation of the noise in an entry.
        generator: Of simulated errors.
        control: Of the time.

    Returns:
        The better records, with their errors if every neuron is right; or the same as before where
        a later layer's gradient is not explained to within noise.

    Source:
        Ours.
    """
    records, weights = polished.records, polished.weights
    width, features = network.layers[0].shape
    # Weights that are known no better than their records would pass for exact here.
    if width < LEAST_WIDTH * features or not polished.alike:
        return polished
    passed = network.run(records)
    errors = side_errors(network, passed, polished.entry_error, generator)
    slopes = network.slopes(passed.outputs, labels)
    gates = read_gates(network, passed, slopes, weights=weights, errors=errors, level=level)
    deltas = [weights[:, None] * delta for delta in gates.deltas]
    normal = _Normal(network, [torch.sigmoid(odds) for odds in gates.odds], deltas)
    if not normal.usable:
        return polished
    inputs = normal.inputs(records, biases=True)
    lines = list(zip(network.layers, deltas, inputs, normal.grams, strict=True))
    seen = normal.back([d @ layer.weight_gradient - gram @ h for layer, d, h, gram in lines])
    change = normal.solve(seen, control)
    if change is None:
        return polished
    moved = normal.inputs(change, biases=False)
    for (layer, delta, entered, _), step in zip(lines, moved, strict=True):
        rest = layer.weight_gradient - delta.T @ (entered + step)
        allowed = LARGEST_REMAINDER + REMAINDER_SIGMAS * (2 / rest.numel()) ** 0.5
        if float(rest.square().mean()) > allowed * level**2:
            return polished
    # The error of the solution, drawn once: over hundreds of entries it shows its own size.
    noise = [
        torch.linalg.cholesky_ex(gram).L
        @ torch.randn(h.shape, generator=generator, dtype=h.dtype, device=h.device)
        for gram, h in zip(normal.grams, inputs, strict=True)
    ]
    drawn = normal.solve(level * normal.back(noise), control)
    if drawn is None:
        return polished
    own = drawn.square().mean(1)
    # What neurons and their gradients are off stays as it is.
    off = (polished.entry_error.square() - polished.floor.square()).clamp(min=0)
    return replace(polished, records=records + change, entry_error=(own + off).sqrt())
