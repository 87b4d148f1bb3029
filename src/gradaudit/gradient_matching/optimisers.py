"""Two ways downhill, for several independent starts: L-BFGS, and Adam on signed gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.budget import Control

# L-BFGS is left for a look at the clock after so many iterations.
ROUND = 20
HISTORY = 100
# A round that lowers the value by less than this part has converged.
LEAST_GAIN = 1e-6
# Inverting Gradients divides the rate by ten after these parts of the iterations.
MILESTONES = (3 / 8, 5 / 8, 7 / 8)
DECAY = 0.1
# Iterations of Adam between reports.
REPORT_EVERY = 50

Variables = tuple[Tensor, ...]
Objective = Callable[[Variables], Tensor]


@dataclass(frozen=True, eq=False)
class Minimum:
    """The best points seen.

    Attributes:
        variables: One tensor a kind, restarts first.
        values: The objective there; infinite for a start that was not reached.
        iterations: Spent in all.
        stopped: Why the search ended early; empty if it did not.
    """

    variables: Variables
    values: Float[Tensor, " r"]
    iterations: int
    stopped: str


def lbfgs(
    objective: Objective,
    start: Variables,
    *,
    iterations: int,
    learning_rate: float,
    enough: float,
    control: Control,
    phase: str,
) -> Minimum:
    """L-BFGS with a strong-Wolfe line search, one start after another.

    A start that leads to a value that is not finite ends there; once one start reaches a value
    that is low enough, the others are not tried.

    Args:
        objective: From variables of r starts to r values.
        start: Variables, r starts each.
        iterations: Of each start.
        learning_rate: First step tried by a line search.
        enough: Below this value there is nothing to gain.
        control: Stops the search; is told how far it is.
        phase: What to call it.
    """
    best = [tensor.detach().clone() for tensor in start]
    values = start[0].new_full((len(start[0]),), float("inf"))
    spent, stopped = 0, ""
    for place in range(len(values)):
        variables = tuple(t[place : place + 1].detach().clone().requires_grad_() for t in start)
        optimiser = torch.optim.LBFGS(
            variables,
            lr=learning_rate,
            max_iter=ROUND,
            history_size=HISTORY,
            tolerance_grad=0.0,
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )

        def closure(
            variables: Variables = variables, optimiser: torch.optim.LBFGS = optimiser
        ) -> float:
            optimiser.zero_grad()
            value = objective(variables).sum()
            value.backward()  # type: ignore[no-untyped-call]
            return float(value.detach())

        before = float("inf")
        for done in range(0, iterations, ROUND):
            stopped = control.stop_reason() or ""
            if stopped:
                return Minimum(tuple(best), values, spent, stopped)
            control.report(f"{phase}, start {place + 1}", tried=done, wanted=iterations)
            optimiser.step(closure)  # type: ignore[no-untyped-call]
            spent += ROUND
            with torch.no_grad():
                value = objective(variables)[0]
            if value < values[place]:
                values[place] = value
                for kept, tensor in zip(best, variables, strict=True):
                    kept[place] = tensor.detach()[0]
            if not value < before * (1 - LEAST_GAIN) or value <= enough:
                break
            before = float(value)
        if bool(values[place] <= enough):
            break
    return Minimum(tuple(best), values, spent, "")


def signed_adam(
    objective: Objective,
    start: Variables,
    *,
    iterations: int,
    learning_rate: float,
    project: Callable[[Variables], None],
    control: Control,
    phase: str,
) -> Minimum:
    """Adam on the gradient's signs with a rate that decays in steps, all starts side by side.

    Args:
        objective: From variables of r starts to r values.
        start: Variables, r starts each.
        iterations: Steps.
        learning_rate: The first rate.
        project: Brings variables back into their box, in place.
        control: Stops the search; is told how far it is.
        phase: What to call it.

    Source:
        Inverting Gradients (arXiv 2003.14053), section 5 and appendix.
    """
    variables = tuple(tensor.detach().clone().requires_grad_() for tensor in start)
    optimiser = torch.optim.Adam(variables, lr=learning_rate)
    steps = [int(part * iterations) for part in MILESTONES]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, steps, DECAY)
    best = [tensor.detach().clone() for tensor in variables]
    values = start[0].new_full((len(start[0]),), float("inf"))
    for done in range(iterations + 1):
        found = objective(variables)
        better = found.detach() < values
        values = torch.where(better, found.detach(), values)
        for kept, tensor in zip(best, variables, strict=True):
            kept[better] = tensor.detach()[better]
        stopped = control.stop_reason() or ""
        if stopped or done == iterations:
            break
        if done % REPORT_EVERY == 0:
            control.report(phase, tried=done, wanted=iterations)
        for tensor, slope in zip(
            variables, torch.autograd.grad(found.sum(), variables), strict=True
        ):
            tensor.grad = slope.sign()
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            project(variables)
    return Minimum(tuple(best), values, done, stopped)
