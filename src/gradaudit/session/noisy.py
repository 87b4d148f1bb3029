"""The attack on one linear layer whose gradient carries noise."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from gradaudit.applicability import NOISE_ATTACKS
from gradaudit.certify import certify_under_noise
from gradaudit.linear.factor import Factors
from gradaudit.linear.noise import looks_independent
from gradaudit.linear.problem import Setting, build_problem
from gradaudit.linear.tolerances import SURPLUS_ZEROS
from gradaudit.noisy import factors_above_noise, measure_noise, recover_under_noise
from gradaudit.outcome import Outcome
from gradaudit.outcome.noisy import describe_under_noise, hidden_by_noise
from gradaudit.session.setup import Setup
from gradaudit.update import LinearLayer


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
        if self.setup.update.noise:
            return True
        spectrum = factors.spectrum
        if spectrum.has_gap:
            # Above rounding, the widest gap lies at the threshold only where noise fills the rest.
            return spectrum.numerical_rank < len(spectrum.singular_values) and (
                spectrum.threshold == spectrum.singular_values[spectrum.numerical_rank]
            )
        level, rank = measure_noise(_values(factors), layer.shape)
        if level == 0.0 or rank >= min(layer.shape) // 2:
            return False
        matrix = layer.weight_gradient.to(factors.left)
        kept = factors.left[:, :rank] * factors.values[:rank]
        rest = matrix - kept @ factors.right[:, :rank].T
        return looks_independent(matrix, rest, rank)

    def run(self, layer: LinearLayer, factors: Factors, role: str) -> Outcome:
        """Attack the layer, or say what hides its records.

        Args:
            layer: As observed, on the device.
            factors: Of its weight gradient.
            role: ``"input"`` or ``"interior"``.
        """
        control = self.setup.control
        level, rank = measure_noise(_values(factors), layer.shape, self.setup.update.noise)
        rank = min(rank, factors.rank)
        factors = factors_above_noise(factors, level, rank)
        if rank == 0 or rank + SURPLUS_ZEROS > len(factors.left) // 2:
            return hidden_by_noise(layer, role, factors)
        problem = build_problem(layer, factors, Setting.SPARSE_GRADIENT)
        recovery = recover_under_noise(problem, generator=self.setup.generator, control=control)
        verdict = None
        if recovery.batch is not None:
            control.report(f"layer {layer.name}: certifying")
            verdict = certify_under_noise(
                problem,
                recovery.batch.records,
                entry_error=recovery.batch.errors.entry,
                side_error=recovery.batch.errors.side,
                network=self.setup.network_of(layer.name),
                image_shape=self.setup.image_shape,
                sign=self.setup.sign,
            )
        return describe_under_noise(problem, role, recovery, verdict)


def _values(factors: Factors) -> Float[Tensor, " k"]:
    """All singular values that are known."""
    known = factors.spectrum.singular_values
    return factors.values.new_tensor(known) if len(known) > factors.rank else factors.values
