from __future__ import annotations

import pytest
import torch
from rgap.networks import generator

from gradaudit.solvers.lsmr import lsmr


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def solve(matrices: torch.Tensor, right: torch.Tensor, iterations: int = 200, **more):
    return lsmr(
        lambda x: (matrices @ x[..., None])[..., 0],
        lambda y: (matrices.mT @ y[..., None])[..., 0],
        right,
        tolerance=torch.full((len(right),), 1e-11, dtype=torch.float64),
        iterations=iterations,
        **more,
    )


@pytest.mark.parametrize("shape", [(20, 8), (8, 8), (6, 11)])
def test_every_row_is_its_own_least_squares_problem(shape):
    matrices, right = normal(3, *shape, seed=1), normal(3, shape[0], seed=2)
    found = solve(matrices, right)
    wanted = (torch.linalg.pinv(matrices) @ right[..., None])[..., 0]
    assert torch.allclose(found.solution, wanted, atol=1e-8)
    left = right - (matrices @ found.solution[..., None])[..., 0]
    normals = (matrices.mT @ left[..., None])[..., 0].norm(dim=1)
    assert (normals < 1e-9).all()


def test_condition_and_largest_singular_value():
    matrices = normal(2, 20, 8, seed=3)
    values = torch.linalg.svdvals(matrices)
    found = solve(matrices, normal(2, 20, seed=4))
    assert torch.allclose(found.condition, values[:, 0] / values[:, -1], rtol=1e-5)
    assert torch.allclose(found.largest, values[:, 0], rtol=1e-5)


def test_rows_that_end_early_or_hold_nothing_stay_as_they_are():
    matrices = torch.stack([torch.eye(6).double(), normal(6, 6, seed=5), normal(6, 6, seed=6)])
    right = normal(3, 6, seed=7)
    right[2] = 0
    kept = right.clone()
    found = solve(matrices, right)
    assert torch.equal(right, kept)
    assert torch.allclose(found.solution[0], right[0])
    assert torch.allclose(matrices[1] @ found.solution[1], right[1], atol=1e-7)
    assert (found.solution[2] == 0).all()


def test_it_ends_when_asked_to():
    matrices, right = normal(1, 30, 20, seed=8), normal(1, 30, seed=9)
    assert solve(matrices, right, iterations=3).iterations == 3
    asked = iter([False, False, True])
    assert solve(matrices, right, stop=lambda: next(asked)).iterations == 2
