"""From the last layer to the input, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.chain import Activation, Affine, ChannelScale, Reshape, Skip, Step
from gradaudit.rgap.layer import LayerSolution, solve_layer
from gradaudit.rgap.operators import layer_gradient
from gradaudit.rgap.problem import Known, LayerProblem
from gradaudit.rgap.refusal import NotSolvableError, sentence

# An output of ReLU counts as zero below so many of its standard deviations: none of the true
# zeros of a layer of a million is taken for an output.
ACTIVE_DEVIATIONS = 6.0


@dataclass
class Recursion:
    """Walks a chain backwards; notes what every layer came to.

    Attributes:
        gradients: Observed, by parameter, (r, ...), in float64.
        noise: Standard deviation of its entries, by parameter and output, (r, o).
        records: Which observed gradient each problem is about.
        stop: Asked during iterations.
        solutions: By layer, in the order in which they were solved.
        saturated: By activation, how many entries were rounded away, by problem.
    """

    gradients: Mapping[str, Tensor]
    noise: Mapping[str, Tensor]
    records: Int[Tensor, " p"]
    stop: Callable[[], bool] = lambda: False
    solutions: list[LayerSolution] = field(default_factory=list)
    saturated: dict[str, Tensor] = field(default_factory=dict)

    def back(self, steps: Sequence[Step], known: Known) -> Known:
        """What is known before some steps from what is known behind them.

        Raises:
            NotSolvableError: A step has no way back from there.
        """
        for step in reversed(steps):
            if isinstance(step, Affine):
                known = self._affine(step, known)
            elif isinstance(step, Activation):
                known = self._activation(step, known)
            elif isinstance(step, ChannelScale):
                known = _scale(step, known)
            elif isinstance(step, Skip):
                known = self._skip(step, known)
            elif not isinstance(step, Reshape):
                raise NotSolvableError(
                    f"Step {step.name!r} cannot be computed backwards: {step.reason}.",
                    sentence(step.remedy),
                )
        return known

    def keep(self, rows: Bool[Tensor, " p"]) -> Recursion:
        """The same for some of the problems."""
        return Recursion(
            self.gradients,
            self.noise,
            self.records[rows],
            self.stop,
            [solution.rows(rows) for solution in self.solutions],
            {name: count[rows] for name, count in self.saturated.items()},
        )

    def _affine(self, layer: Affine, known: Known) -> Known:
        problem = LayerProblem(
            layer,
            self.gradients[layer.weight_name][self.records].flatten(1),
            self.noise[layer.weight_name][self.records],
            known,
            layer_gradient(layer, known.gradient),
        )
        solution = solve_layer(problem, self.stop)
        self.solutions.append(solution)
        return Known(
            solution.inputs,
            solution.error[:, None],
            problem.equations.input_gradient(),
            known.gradient_error,
        )

    def _activation(self, step: Activation, known: Known) -> Known:
        if known.values is None:
            raise NotSolvableError(
                f"The activation {step.name!r} ends a branch of a skip block, so that its own "
                "output is not known.",
                "Audit a network whose branches end in a layer.",
            )
        size = known.values.abs().amax(1, keepdim=True)
        relative = float((known.error / size.clamp(min=1e-300)).amax())
        values = step.inverse(known.values, relative)
        self.saturated[step.name] = step.saturated(known.values, relative).sum(1)
        slope = step.derivative(values)
        error = known.error / slope
        if not step.invertible:
            active = known.values > ACTIVE_DEVIATIONS * known.error
            values, slope = torch.where(active, values, 0.0), active.to(slope)
            error = torch.where(active, known.error, torch.inf)
        bent = known.gradient_error
        if step.bend:
            # A slope is as uncertain as its place; where saturated, it vanishes and does not count.
            share = (known.gradient * slope).square()
            spread = (share * (step.bend * error).clamp(max=1.0).square()).sum(1)
            bent = torch.hypot(bent, (spread / share.sum(1).clamp(min=1e-300)).sqrt())
        return Known(values, error, known.gradient * slope, bent)

    def _skip(self, step: Skip, known: Known) -> Known:
        """Through the body alone: its last layer's input must follow from the gradient."""
        inner = Known(None, known.error, known.gradient, known.gradient_error)
        before = self.back(step.body, inner)
        gradient = before.gradient + known.gradient
        return Known(before.values, before.error, gradient, before.gradient_error)


def _scale(step: ChannelScale, known: Known) -> Known:
    if known.values is None:
        raise NotSolvableError(
            f"The normalisation {step.name!r} ends a branch of a skip block.",
            "Audit a network whose branches end in a layer.",
        )

    def shaped(flat: Float[Tensor, "p n"]) -> Tensor:
        return flat.reshape(len(flat), *step.shape)

    values = step.inverse(shaped(known.values)).flatten(1)
    gradient = step.adjoint(shaped(known.gradient)).flatten(1)
    ones = torch.ones(1, *step.shape, dtype=values.dtype, device=values.device)
    error = known.error / step.linear(ones).abs().flatten(1)
    return Known(values, error, gradient, known.gradient_error)
