"""Conjugate gradients solve, stay solved, and leave each system to itself."""

from __future__ import annotations

import torch

from gradaudit.linear.conjugate import conjugate_gradient
from linear.planted import gaussian


def systems(count: int, size: int):
    points = gaussian(3 * size, size, 0)
    weights = gaussian(count, 3 * size, 1).exp()
    matrices = (points.T[None] * weights[:, None, :]) @ points
    return matrices, lambda x: (weights * (x @ points.T)) @ points


def test_many_systems_are_solved_at_once():
    matrices, apply = systems(6, 15)
    right = gaussian(6, 15, 2)
    solution = conjugate_gradient(apply, right, steps=60)
    direct = torch.linalg.solve(matrices, right[..., None])[..., 0]
    assert float((solution - direct).norm() / direct.norm()) < 1e-10


def test_solved_systems_rest():
    # In float32, with many more steps than unknowns: noise must not be amplified.
    _, apply = systems(4, 3)
    right = gaussian(4, 3, 2)
    few = conjugate_gradient(apply, right, steps=10)
    many = conjugate_gradient(
        lambda x: apply(x.double()).float(), right.float(), steps=200
    ).double()
    assert float((few - many).norm() / few.norm()) < 1e-5


def test_a_zero_right_side_has_the_zero_solution():
    _, apply = systems(2, 5)
    right = gaussian(2, 5, 1)
    right[0] = 0
    solution = conjugate_gradient(apply, right, steps=20)
    assert solution[0].tolist() == [0.0] * 5
    assert bool(torch.isfinite(solution).all())
