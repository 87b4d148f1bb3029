"""Kernels of b - 1 rows, many at once."""

from __future__ import annotations

import torch

from gradaudit.linear.kernels import (
    SCREEN_TOLERANCE,
    bordered_kernels,
    near_zeros,
    screen_tolerance,
)
from linear.planted import gaussian, plant, seeded


def test_kernels_are_the_svds():
    rows = torch.randn(30, 5, 6, generator=seeded(0), dtype=torch.float64)
    kernels = bordered_kernels(rows, seeded(1))
    expected = torch.linalg.svd(rows, full_matrices=True).Vh[:, -1]
    assert torch.allclose((kernels * expected).sum(1).abs(), torch.ones(30, dtype=torch.float64))


def test_dependent_rows_pass_no_screen():
    row = torch.tensor([0.6, 0.8, 0.0], dtype=torch.float64)
    kernel = bordered_kernels(torch.stack([row, row])[None], seeded(0))
    assert near_zeros(kernel, torch.eye(3, dtype=torch.float64), 10.0).item() == 0


def test_a_true_direction_nearly_vanishes_on_its_inactive_rows():
    planted = plant(gaussian(6, 40, 1), width=100)
    inactive = (planted.gradients == 0).sum(0)
    live = planted.problem.live
    zeros = near_zeros(
        planted.true_directions, planted.problem.unit_rows, screen_tolerance(planted.problem)
    )
    chance = 10  # entries of a few hundred that are below 1e-3 without being zeros
    dead = int((~live).sum())
    assert bool((zeros >= inactive - dead).all())
    assert bool((zeros <= inactive - dead + chance).all())


def test_the_tolerance_grows_with_the_noise_and_is_bounded():
    records = gaussian(6, 40, 1)
    exact = plant(records, width=100).problem
    rough = plant(records, width=100, factor_like=torch.bfloat16).problem
    assert screen_tolerance(exact) == SCREEN_TOLERANCE
    assert SCREEN_TOLERANCE < screen_tolerance(rough) <= 30 * SCREEN_TOLERANCE
