"""One layer's input: channel by channel where the gradient suffices, else from all equations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.rgap.lsmr import lsmr
from gradaudit.rgap.operators import constant
from gradaudit.rgap.problem import LayerProblem

# Gradient equations alone are taken where they give an input to within so many times the error
# that the gradient itself has; each channel then costs one product.
DIRECT_FACTOR = 30.0
# LSMR ends when what is left of the normal equations is this part of what noise leaves there.
CONVERGED = 0.1
# Iterations of LSMR: CNN6's layers take 200 to 600; a layer with a deficit may never converge.
MOST_ITERATIONS = 1500
# Roundings of float64 that a solve leaves in the values it gives.
ARITHMETIC = 16 * torch.finfo(torch.float64).eps
# Weight of what is not there, relative to the largest singular value: without outputs, only what
# the gradient equations say at all is to be found.
NOTHING = 1e-6


@dataclass(frozen=True, eq=False)
class LayerSolution:
    """A layer's input, and how well the equations determine it. One problem a row.

    Attributes:
        layer: Module path.
        unknowns: Entries of the input.
        inputs: The input, flat; of several solutions the one next to zero.
        error: Standard deviation of an entry that rounding predicts.
        rank: Of the equations, as in `LayerProblem.rank`.
        condition: Largest over smallest singular value of the equations that were solved.
        gradient_residual: Of the gradient equations, relative to the gradient.
        method: ``"direct"`` or ``"lsmr"``.
        iterations: Of LSMR.
    """

    layer: str
    unknowns: int
    inputs: Float[Tensor, "p n"]
    error: Float[Tensor, " p"]
    rank: Int[Tensor, " p"]
    condition: Float[Tensor, " p"]
    gradient_residual: Float[Tensor, " p"]
    method: str
    iterations: int = 0

    @property
    def deficit(self) -> Int[Tensor, " p"]:
        """Unknowns that no equation determines."""
        return self.unknowns - self.rank

    def rows(self, kept: Bool[Tensor, " p"] | slice) -> LayerSolution:
        """The same for some of the problems."""
        return replace(
            self,
            inputs=self.inputs[kept],
            error=self.error[kept],
            rank=self.rank[kept],
            condition=self.condition[kept],
            gradient_residual=self.gradient_residual[kept],
        )

    def row(self, p: int) -> LayerSolution:
        """The same for one problem."""
        return self.rows(slice(p, p + 1))


def solve_layer(problem: LayerProblem, stop: Callable[[], bool] = lambda: False) -> LayerSolution:
    """Recover a layer's input.

    Args:
        problem: Its equations.
        stop: Asked during iterations; true ends them with what there is.

    Source:
        R-GAP (arXiv 2010.07733), section 3; the weights and the implicit operators are ours.
    """
    spectrum = problem.spectrum
    if spectrum.complete:
        inputs = spectrum.solve(problem.by_channel())
        error = spectrum.values.square().reciprocal().mean((1, 2)).sqrt()
        size = inputs.square().mean(1).sqrt()
        accurate = bool((error <= DIRECT_FACTOR * problem.relative_noise * size).all())
        if accurate or problem.behind.values is None:
            return _solution(problem, inputs, error, spectrum.condition)
    return _iterate(problem, stop)


def _iterate(problem: LayerProblem, stop: Callable[[], bool]) -> LayerSolution:
    """From all equations together, preconditioned by the decomposition of the gradient's."""
    equations, spectrum, entries = problem.equations, problem.spectrum, problem.gradient.shape[1]
    weight = (1 / problem.deviation).repeat_interleave(entries // problem.deviation.shape[1], 1)
    trust = _trust(problem)
    average = _average_weight(problem, trust)

    def apply(scaled: Tensor) -> Tensor:
        inputs = spectrum.precondition(scaled, average)
        if trust is None:
            return equations.gradient(inputs) * weight
        gradient, output = equations(inputs)
        return torch.cat([gradient * weight, output * trust], 1)

    def adjoint(rows: Tensor) -> Tensor:
        gradient = rows[:, :entries] * weight
        if trust is None:
            return spectrum.precondition(equations.gradient_adjoint(gradient), average)
        return spectrum.precondition(
            equations.adjoint(gradient, rows[:, entries:] * trust), average
        )

    right = problem.gradient * weight
    if trust is not None and problem.behind.values is not None:
        right = torch.cat([right, (problem.behind.values - constant(problem.layer)) * trust], 1)
    found = lsmr(
        apply,
        adjoint,
        right,
        tolerance=torch.full_like(average, CONVERGED * math.sqrt(problem.layer.unknowns)),
        iterations=MOST_ITERATIONS,
        stop=stop,
    )
    # More is left than the weights allow for where what lies behind was less exact than thought.
    left = (right - apply(found.solution)).square().mean(1).sqrt().clamp(min=1.0)
    inputs = spectrum.precondition(found.solution, average)
    error = spectrum.error(average) * left
    return _solution(problem, inputs, error, found.condition, steps=found.iterations)


def _trust(problem: LayerProblem) -> Float[Tensor, "p z"] | None:
    """One over the standard deviation of each output."""
    behind = problem.behind
    if behind.values is None:
        return None
    floor = ARITHMETIC * behind.values.abs().amax(1, keepdim=True)
    return (1 / torch.maximum(behind.error, floor)).expand_as(behind.values)


def _average_weight(
    problem: LayerProblem, trust: Float[Tensor, "p z"] | None
) -> Float[Tensor, " p"]:
    """Root mean square of what the outputs' equations weigh on an entry of the input."""
    if trust is None:
        return NOTHING * problem.spectrum.values.amax((1, 2))
    layer = problem.layer
    total = layer.weight.square().sum() * problem.equations.patches.positions
    return (total / layer.unknowns * trust.square().mean(1)).sqrt()


def _solution(
    problem: LayerProblem,
    inputs: Tensor,
    error: Tensor,
    condition: Tensor,
    *,
    steps: int = 0,
) -> LayerSolution:
    return LayerSolution(
        layer=problem.layer.name,
        unknowns=problem.layer.unknowns,
        inputs=inputs,
        error=torch.maximum(error, ARITHMETIC * inputs.abs().amax(1)),
        rank=problem.rank(),
        condition=condition,
        gradient_residual=problem.gradient_residual(inputs),
        method="lsmr" if steps else "direct",
        iterations=steps,
    )
