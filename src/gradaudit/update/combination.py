"""What local training with SGD is a combination of: a linear recursion in scalars."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradaudit.errors import InputError
from gradaudit.update.steps import LocalTraining


@dataclass(frozen=True)
class Combination:
    """A difference of weights as ``weights * W_0 + sum_t gradients[t] * g_t``.

    Attributes:
        weights: Coefficient of the weights before; 0 without weight decay.
        gradients: Coefficient of each step's gradient, the first step's first.
    """

    weights: float
    gradients: tuple[float, ...]


def combination(training: LocalTraining, steps: int) -> Combination:
    """The coefficients with which SGD's steps enter the difference of weights.

    With learning rate eta, momentum mu, dampening tau and weight decay lambda, torch's SGD makes
    of the gradient g_t at step t

        d_t = g_t + lambda W_(t-1),   v_1 = d_1,   v_t = mu v_(t-1) + (1 - tau) d_t,
        W_t = W_(t-1) - eta v_t,      or W_(t-1) - eta (d_t + mu v_t) with Nesterov's momentum.

    All of this is linear in W_0 and the g_t: the same recursion on the coefficients gives theirs.
    Without momentum, those of W_T - W_0 are (1 - eta lambda)^T - 1 and
    -eta (1 - eta lambda)^(T-t).

    Args:
        training: SGD with a known learning rate.
        steps: T, 1 or more.

    Raises:
        InputError: Another optimiser, or an unknown learning rate.

    Source:
        torch.optim.SGD's documented algorithm.

    Example:
        >>> combination(LocalTraining(0.5, momentum=0.5), steps=2)
        Combination(weights=0.0, gradients=(-0.75, -0.5))
    """
    coefficients = _run(training, steps, size=steps + 1)
    return Combination(float(coefficients[0]), tuple(coefficients[1:].tolist()))


def weights_coefficient(training: LocalTraining, steps: int) -> float:
    """The first of `combination`'s coefficients alone, in time and memory that it needs."""
    return float(_run(training, steps, size=1)[0])


def _run(training: LocalTraining, steps: int, size: int) -> np.ndarray:
    """Coefficients of W_T - W_0 on (W_0, g_1, ..., g_T), or on the first ``size`` of these."""
    rate = training.learning_rate
    if not training.is_linear:
        raise InputError("optimizer", repr(training.optimizer), "'sgd', whose steps are linear")
    if rate is None:
        raise InputError("learning_rate", "None", "the client's learning rate")
    before = np.zeros(size)
    before[0] = 1.0
    # The difference itself is carried, not W_t: no digits cancel when the decay is tiny.
    difference = np.zeros(size)
    velocity = np.zeros(size)
    for step in range(1, steps + 1):
        direction = training.weight_decay * (before + difference)
        if step < size:
            direction[step] += 1.0
        if training.momentum:
            share = 1.0 if step == 1 else 1.0 - training.dampening
            velocity = training.momentum * velocity + share * direction
            lookahead = direction + training.momentum * velocity
            direction = lookahead if training.nesterov else velocity
        difference = difference - rate * direction
    return difference
