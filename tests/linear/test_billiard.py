from __future__ import annotations

import torch

from gradaudit.linear.billiard import Walkers


def walkers(sides, margins, slopes, *, seed: int = 0) -> Walkers:
    count, size = len(sides), slopes.shape[1]
    return Walkers(
        torch.zeros(count, size, dtype=torch.float64),
        margins,
        sides,
        slopes=slopes,
        shapes=torch.eye(size, dtype=torch.float64).repeat(count, 1, 1),
        generator=torch.Generator().manual_seed(seed),
    )


def test_points_are_spread_evenly_over_boxes():
    """Boxes of different widths: the variance of an edge of length a is a^2 / 12."""
    size, count = 4, 60
    slopes = torch.eye(size, dtype=torch.float64).repeat(2, 1)
    sides = torch.cat([torch.ones(size), -torch.ones(size)]).double().repeat(count, 1)
    widths = torch.tensor([1.0, 2.0, 0.5, 1.5], dtype=torch.float64)
    margins = (widths / 2).repeat(count, 2)
    ball = walkers(sides, margins, slopes)
    total = square = weight = torch.zeros(size, dtype=torch.float64)
    for step in range(300):
        places, length = ball.move()
        assert bool((places.abs() <= widths / 2 + 1e-9).all())
        if step >= 60:
            total = total + (places * length[:, None]).sum(0)
            square = square + (places.square() * length[:, None]).sum(0)
            weight = weight + length.sum()
    mean, variance = total / weight, square / weight
    # About 60 * 240 / 12 independent points: the relative standard error of a variance is below
    # 0.03, and six of them are exceeded with probability 1e-8.
    assert torch.allclose(mean / widths, torch.zeros_like(mean), atol=0.06)
    assert torch.allclose(variance, widths.square() / 12, rtol=0.18)


def test_points_are_spread_evenly_over_a_triangle():
    """Not a product of intervals: x, y >= -1 and x + y <= 1, whose centroid is (0, 0)."""
    slopes = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    count = 60
    sides = torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64).repeat(count, 1)
    ball = walkers(sides, torch.ones(count, 3, dtype=torch.float64), slopes)
    total, weight = torch.zeros(2, dtype=torch.float64), 0.0
    corner = 0.0
    for step in range(300):
        places, length = ball.move()
        assert bool((places >= -1 - 1e-9).all())
        assert bool((places.sum(1) <= 1 + 1e-9).all())
        if step >= 40:
            total = total + (places * length[:, None]).sum(0)
            corner += float((length * (places[:, 0] > 1)).sum())
            weight += float(length.sum())
    # Of the triangle with legs of 3, the part x > 1 is one with legs of 1: a ninth. Standard
    # errors are below 0.02 and 0.01.
    assert torch.allclose(total / weight, torch.zeros_like(total), atol=0.12)
    assert abs(corner / weight - 1 / 9) < 0.06


def test_a_way_without_an_end_is_said_to_be_infinite():
    slopes = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    ball = walkers(torch.ones(8, 1).double(), torch.ones(8, 1).double(), slopes)
    lengths = torch.stack([ball.move()[1] for _ in range(5)])
    assert bool(torch.isinf(lengths).any(0).all())


def test_boundaries_that_do_not_count_are_crossed():
    slopes = torch.eye(2, dtype=torch.float64).repeat(2, 1)
    sides = torch.tensor([1.0, 0.0, -1.0, 0.0], dtype=torch.float64).repeat(4, 1)
    ball = walkers(sides, torch.ones(4, 4, dtype=torch.float64), slopes)
    places = torch.stack([ball.move()[0] for _ in range(40)])
    assert float(places[..., 0].abs().max()) <= 1
    assert float(places[..., 1].abs().max()) > 3
