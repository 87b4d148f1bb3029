"""The attack on one linear layer whose gradient carries noise."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from gradaudit.applicability import NOISE_ATTACKS
from gradaudit.certify import Verdict, certify_under_noise
from gradaudit.linear.blocks import measure_lines
from gradaudit.linear.factor import BELIEVED_GAP, Factors, rounding_of_weights
from gradaudit.linear.noise import effective_dtype, is_independent
from gradaudit.linear.problem import Problem, Setting, build_problem
from gradaudit.linear.remainder import Remainder
from gradaudit.linear.tolerances import SURPLUS_ZEROS, rounding_floor
from gradaudit.noisy import (
    NoisyBatch,
    Recovery,
    factors_above_noise,
    measure_noise,
    noise_edge,
    recover_under_noise,
)
from gradaudit.outcome import Outcome
from gradaudit.outcome.noisy import describe_under_noise, hidden_by_noise
from gradaudit.session.polishing import contradicts, polish_by_network
from gradaudit.session.setup import Setup
from gradaudit.update import LinearLayer

# The noise's edge above what rounding explains of a gradient, from which on it is noise.
OVER_ROUNDING = 10.0
# Noise that was given, in units of what is measured, from which on it cannot be there: of a matrix
# with 2,000 entries beside its records' the measured one is within a tenth of the true.
CONTRADICTED = 3.0


@dataclass(frozen=True)
class NoisyAttack:
    """Records from a layer's noisy gradient, each to within an estimated error."""

    setup: Setup

    def suits(self, layer: LinearLayer, factors: Factors, role: str) -> bool:
        """Whether the gradient's noise, known or seen in the spectrum, calls for this attack.

        Args:
            layer: As observed.
            factors: Of its weight gradient.
            role: Of the layer; a ReLU must follow it.
        """
        if self.setup.attack not in NOISE_ATTACKS or role == "output":
            return False
        if layer.bias_gradient is None or factors.rank == 0:
            return False
        known = self.known(layer, factors)
        level, rank = _measure(layer, factors, known)
        rounding = OVER_ROUNDING * _rounding(layer)
        if self.setup.sign < 0:
            rounding = max(rounding, rounding_of_weights(layer.weight))
        if noise_edge(layer.shape, level) < rounding:
            return False
        if known or factors.spectrum.has_gap:
            return True
        if rank >= min(layer.shape) // 2:
            return False
        matrix = layer.weight_gradient if factors.streamed else layer.weight_gradient.double()
        kept = factors.left[:, :rank] * factors.values[:rank]
        rest = Remainder(matrix, kept, factors.right[:, :rank].T)
        return is_independent(measure_lines(matrix, kept.device), rest, rank)

    def unseen(self, layer: LinearLayer, factors: Factors) -> str:
        """How the gradient contradicts the noise that was given; empty where it does not.

        Args:
            layer: As observed.
            factors: Of its weight gradient.
        """
        known = self.setup.update.noise
        level, rank = _measure(layer, factors, None)
        if not known or known < CONTRADICTED * level or rank > min(layer.shape) // 2:
            return ""
        return (
            f"the gradient of layer {layer.name!r} has entries of {level:.1g} at most that no "
            f"record explains, and noise of {known:.1g} was given; it plays no part."
        )

    def known(self, layer: LinearLayer, factors: Factors) -> float | None:
        """The noise's level, if one was given that the gradient does not contradict."""
        return None if self.unseen(layer, factors) else self.setup.update.noise

    def comes_first(self, factors: Factors) -> bool:
        """Whether noise is too strong for zeros to stand out, which an exact search needs."""
        spectrum = factors.spectrum
        return not spectrum.has_gap or (spectrum.gap_ratio or 0.0) < BELIEVED_GAP

    def run(self, layer: LinearLayer, factors: Factors, role: str) -> Outcome:
        """Attack the layer, or say what hides its records.

        Args:
            layer: As observed, on the device.
            factors: Of its weight gradient.
            role: ``"input"`` or ``"interior"``.
        """
        control = self.setup.control
        level, rank = _measure(layer, factors, self.known(layer, factors))
        rank = min(rank, factors.rank)
        factors = factors_above_noise(factors, level, rank)
        if rank == 0 or rank + SURPLUS_ZEROS > len(factors.left) // 2:
            return hidden_by_noise(layer, role, factors)
        problem = build_problem(layer, factors, Setting.SPARSE_GRADIENT)
        recovery = recover_under_noise(problem, generator=self.setup.generator, control=control)
        verdict = None
        if recovery.batch is not None:
            recovery, verdict = self._judged(problem, recovery, recovery.batch)
        return describe_under_noise(problem, role, recovery, verdict)

    def _judged(
        self, problem: Problem, recovery: Recovery, batch: NoisyBatch
    ) -> tuple[Recovery, Verdict]:
        """The records as found, or as the network makes them, if that proves no fewer of them."""
        network = self.setup.network_of(problem.layer.name)

        def judge(batch: NoisyBatch) -> Verdict:
            self.setup.control.report(f"layer {problem.layer.name}: certifying")
            return certify_under_noise(
                problem,
                batch.records,
                entry_error=batch.errors.entry,
                side_error=batch.errors.side,
                network=network,
                image_shape=self.setup.image_shape,
                sign=self.setup.sign,
            )

        began = time.perf_counter()
        polished = polish_by_network(self.setup, problem, batch, network)
        seconds = recovery.seconds | {"polish": time.perf_counter() - began}
        recovery, found = replace(recovery, seconds=seconds), judge(batch)
        if polished is None:
            return recovery, found
        better = replace(
            batch,
            records=polished.records,
            activation_gradients=polished.activation_gradients,
            errors=replace(batch.errors, entry=polished.entry_error, side=polished.side_error),
        )
        verdict = judge(better)
        proven = [record.recovered for record in found.evidence]
        worse = verdict.recovered < max(found.recovered, 1)
        if worse or contradicts(batch, polished, proven):
            return recovery, found
        counters = recovery.counters | {"polish_rounds": float(polished.rounds)}
        return replace(recovery, batch=better, counters=counters), verdict


def _measure(layer: LinearLayer, factors: Factors, known: float | None) -> tuple[float, int]:
    """The noise's level and the rank above it, also where the smallest values are not listed."""
    values, kept = _values(factors), factors.rank
    unlisted = 0.0
    if len(values) < min(layer.shape):
        rest = factors.spectrum.noise_level**2 * layer.shape[0] * layer.shape[1]
        unlisted = max(rest - float(values[kept:].square().sum()), 0.0)
    return measure_noise(values, layer.shape, known, beyond=unlisted)


def _values(factors: Factors) -> Float[Tensor, " k"]:
    """All singular values that are known."""
    known = factors.spectrum.singular_values
    return factors.values.new_tensor(known) if len(known) > factors.rank else factors.values


def _rounding(layer: LinearLayer) -> float:
    """The largest singular value that rounding alone explains."""
    matrix = layer.weight_gradient
    lines = measure_lines(matrix)
    row, column = lines.largest_row, lines.largest_column
    return rounding_floor(effective_dtype(matrix), max(row, column), row, column)
