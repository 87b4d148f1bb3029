"""One layer's input: channel by channel where the gradient suffices, else from all equations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.rgap.problem import ARITHMETIC, LayerProblem
from gradaudit.solvers.lsmr import lsmr

# Gradient equations alone are taken where they give an input to within so many times the error
# that the gradient itself has; each channel then costs one product.
DIRECT_FACTOR = 30.0
# LSMR ends when what is left of the normal equations is this part of what noise leaves there; with
# condition numbers around a hundred, no more error is then left than that of noise.
CONVERGED = 0.01
# Singular values of the outputs' equations in the directions that decide the error and the number
# of iterations, over their root mean square: measured on CNN6, where a half or a tenth do as well.
WEAK_SHARE = 0.2
# Iterations of LSMR: CNN6's layers take 200 to 600; a layer with a deficit may never converge.
MOST_ITERATIONS = 1500


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
    alone = problem.behind.values is None
    if alone or spectrum.complete:
        inputs = spectrum.solve(problem.by_channel())
        error = spectrum.error(torch.zeros_like(problem.precision))
        size = inputs.square().mean(1).sqrt()
        if alone or bool((error <= DIRECT_FACTOR * problem.relative_noise * size).all()):
            return _solution(problem, inputs, error, spectrum.condition)
    return _iterate(problem, stop)


def _iterate(problem: LayerProblem, stop: Callable[[], bool]) -> LayerSolution:
    """From all equations together, in unknowns in which those of the gradient are orthogonal."""
    equations, spectrum, trust = problem.equations, problem.spectrum, problem.trust()
    average = _average_weight(problem, trust)
    scaling = spectrum.scaling(average)
    gradient = spectrum.project(problem.by_channel()).flatten(1)
    right = torch.cat([gradient, problem.outputs() * trust], 1)

    def apply(scaled: Tensor) -> Tensor:
        inputs, rows = scaling(scaled)
        return torch.cat([rows, equations.output(inputs) * trust], 1)

    def adjoint(rows: Tensor) -> Tensor:
        first, second = rows.tensor_split([gradient.shape[1]], dim=1)
        return scaling.adjoint(equations.output_adjoint(second * trust), first)

    found = lsmr(
        apply,
        adjoint,
        right,
        # The unknowns of the scaling are as large as the input, and their equations as w.
        tolerance=average * (CONVERGED * math.sqrt(problem.layer.unknowns)),
        iterations=MOST_ITERATIONS,
        stop=stop,
    )
    # More is left than the weights allow for where what lies behind was less exact than thought.
    left = (right - apply(found.solution)).square().mean(1).sqrt().clamp(min=1.0)
    inputs, _ = scaling(found.solution)
    error = spectrum.error(average) * left
    return _solution(problem, inputs, error, found.condition, steps=found.iterations)


def _average_weight(problem: LayerProblem, trust: Float[Tensor, "p z"]) -> Float[Tensor, " p"]:
    """What the outputs' equations weigh in the directions that they determine weakly."""
    layer = problem.layer
    total = layer.weight.square().sum() * problem.equations.patches.positions
    return WEAK_SHARE * (total / layer.unknowns * trust.square().mean(1)).sqrt()


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
