from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradaudit.errors import InputError
from gradaudit.update import LocalTraining, Update, combination
from gradaudit.update.combination import weights_coefficient

TRAININGS = [
    LocalTraining(0.1),
    LocalTraining(0.1, weight_decay=0.3),
    LocalTraining(0.1, momentum=0.9),
    LocalTraining(0.1, momentum=0.9, weight_decay=0.05),
    LocalTraining(0.1, momentum=0.9, weight_decay=0.05, nesterov=True),
    LocalTraining(0.1, momentum=0.9, weight_decay=0.05, dampening=0.4),
    LocalTraining(0.1, momentum=0.9, weight_decay=0.05, dampening=1.0),
    # torch leaves dampening out where there is no momentum.
    LocalTraining(0.1, weight_decay=0.05, dampening=0.4),
]


def trained(training: LocalTraining, gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights before, and what torch's SGD makes of them with the given gradients."""
    before = torch.arange(1.0, 5.0, dtype=torch.float64)
    weight = torch.nn.Parameter(before.clone())
    optimiser = torch.optim.SGD(
        [weight],
        lr=training.learning_rate,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
        nesterov=training.nesterov,
        dampening=training.dampening,
    )
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimiser.step()
    return before, weight.detach()


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_torchs_sgd_is_this_combination(training, steps):
    generator = torch.Generator().manual_seed(steps)
    gradients = torch.randn(steps, 4, generator=generator, dtype=torch.float64)
    before, after = trained(training, gradients)
    found = combination(training, steps)
    made = found.weights * before + torch.tensor(found.gradients, dtype=torch.float64) @ gradients
    torch.testing.assert_close(after - before, made, rtol=1e-12, atol=1e-14)
    assert weights_coefficient(training, steps) == found.weights


@settings(max_examples=50)
@given(st.floats(1e-4, 1), st.floats(1e-9, 0.9), st.integers(1, 40))
def test_plain_decay_in_closed_form(rate, decay, steps):
    found = combination(LocalTraining(rate, weight_decay=decay), steps)
    shrink = 1 - rate * decay
    # expm1 keeps the digits that 1 - (1 - x)^T loses.
    exact = float(
        torch.expm1(steps * torch.log1p(torch.tensor(-rate * decay, dtype=torch.float64)))
    )
    assert found.weights == pytest.approx(exact, rel=1e-12)
    assert found.gradients == pytest.approx(
        [-rate * shrink ** (steps - t - 1) for t in range(steps)]
    )


def test_what_is_no_known_combination_is_refused():
    with pytest.raises(InputError, match="optimizer: found 'adam'"):
        combination(LocalTraining(0.1, optimizer="adam"), 2)
    with pytest.raises(InputError, match="learning_rate: found None"):
        combination(LocalTraining(), 2)


@pytest.mark.parametrize("training", TRAININGS)
def test_decay_is_removed_from_an_update(training):
    generator = torch.Generator().manual_seed(3)
    training = LocalTraining(**(training.__dict__ | {"epochs": 2, "batch_size": 2, "records": 5}))
    gradients = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    before, after = trained(training, gradients)
    update = Update({"w": before}, delta={"w": after - before}, step=training, noise=0.5)
    remaining = update.without_decay()
    alone = torch.tensor(combination(training, 6).gradients, dtype=torch.float64) @ gradients
    torch.testing.assert_close(remaining.delta["w"], alone, rtol=1e-12, atol=1e-14)
    assert remaining.step.weight_decay == 0
    assert remaining.noise == 0.5
    assert remaining.without_decay() is remaining


def test_statistics_do_not_decay_and_types_are_kept():
    weights = {"n.weight": torch.ones(2), "n.running_mean": torch.ones(2)}
    delta = {name: torch.zeros(2) for name in weights}
    step = LocalTraining(0.1, weight_decay=0.1)
    remaining = Update(weights, delta=delta, step=step).without_decay().delta
    assert torch.equal(remaining["n.running_mean"], torch.zeros(2))
    torch.testing.assert_close(remaining["n.weight"], torch.full((2,), 0.01))
    assert remaining["n.weight"].dtype == torch.float32


def test_decay_needs_the_rate_and_the_number_of_steps():
    weights = {"w": torch.ones(2)}
    with pytest.raises(InputError, match="learning_rate"):
        Update(weights, delta=weights, step=LocalTraining(weight_decay=0.1)).without_decay()
    unknown = LocalTraining(0.1, batch_size=2, weight_decay=0.1)
    with pytest.raises(InputError, match=r"step\.records"):
        Update(weights, delta=weights, step=unknown).without_decay()
