"""Newton steps of logistic regression: against autograd, and to the optimum."""

from __future__ import annotations

import pytest
import torch

from gradaudit.linear.logistic import newton_step
from linear.planted import gaussian, seeded


def whitened(count: int, size: int):
    return torch.linalg.qr(gaussian(count, size, 0)).Q * count**0.5


def loss(points, weights, target, judged, ridge, anchor=0.0):
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(
        weights @ points.T, target, weight=judged, reduction="sum"
    )
    return entropy + ridge / 2 * (weights - anchor).square().sum()


@pytest.mark.parametrize("exact", [True, False])
def test_steps_end_where_the_gradient_vanishes(exact):
    points = whitened(80, 6)
    target = torch.rand(4, 80, generator=seeded(1)).double()
    judged = (torch.rand(4, 80, generator=seeded(2)) < 0.8).double()
    weights = torch.zeros(4, 6, dtype=torch.float64)
    for _ in range(12):
        weights = newton_step(
            points, weights, target, ridge=0.5, curvature_floor=0.0, judged=judged, exact=exact
        )
    weights.requires_grad_(True)
    (gradient,) = torch.autograd.grad(loss(points, weights, target, judged, 0.5), weights)
    assert float(gradient.abs().max()) < 1e-8


def test_an_anchor_is_what_the_weights_are_drawn_to():
    points, anchor = whitened(80, 6), gaussian(4, 6, 3)
    target = torch.rand(4, 80, generator=seeded(1)).double()
    weights = torch.zeros(4, 6, dtype=torch.float64)
    for _ in range(12):
        weights = newton_step(
            points, weights, target, ridge=5.0, curvature_floor=0.0, anchor=anchor
        )
    weights.requires_grad_(True)
    everywhere = torch.ones_like(target)
    (gradient,) = torch.autograd.grad(
        loss(points, weights, target, everywhere, 5.0, anchor), weights
    )
    assert float(gradient.abs().max()) < 1e-8


def test_a_separable_pattern_is_separated():
    points = whitened(200, 10)
    target = ((points @ gaussian(10, 3, 5)).T > 0).double()
    weights = torch.zeros(3, 10, dtype=torch.float64)
    for _ in range(12):
        weights = newton_step(
            points, weights, target, ridge=1e-3, curvature_floor=1e-10, exact=True
        )
    assert bool((((weights @ points.T) > 0) == (target > 0)).all())


def test_steps_are_no_longer_than_allowed():
    points = whitened(50, 5)
    target = (points[:, :1].T > 0).double()
    weights = newton_step(
        points, torch.zeros(1, 5).double(), target, ridge=0.0, curvature_floor=0.0, longest=0.1
    )
    assert float(weights.norm()) == pytest.approx(0.1)
