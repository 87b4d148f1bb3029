"""From a layer-by-layer solution to the one that fits the gradients of all layers best."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from gradaudit.rgap.gradient_map import GradientMap
from gradaudit.solvers.gauss_newton import Fit, gauss_newton

# Each squares the error until rounding is left, and the recursion leaves little to begin with.
STEPS = 3
# Of LSMR within a step.
ITERATIONS = 150
# It may end where what is left of the normal equations is this part of what noise leaves there.
CONVERGED = 0.1


def refine(
    of: GradientMap, inputs: Float[Tensor, "b ..."], stop: Callable[[], bool] = lambda: False
) -> Fit:
    """Gauss-Newton on the gradient of all layers, each entry over its noise.

    The recursion uses each layer's gradient once, and lets errors grow on the way to the input. All
    gradients together know the input better.

    Args:
        of: The map and the observed gradient.
        inputs: Where to begin.
        stop: Asked during iterations; true ends them with what there is.
    """
    return gauss_newton(
        of.whitened,
        of.whitened_observed,
        inputs,
        steps=STEPS,
        iterations=ITERATIONS,
        converged=CONVERGED,
        stop=stop,
    )
