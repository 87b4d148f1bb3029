"""Expectation-maximisation takes rough directions to exact ones, and no others."""

from __future__ import annotations

import pytest
import torch

from gradaudit.linear.pairs import record_link
from gradaudit.linear.sharpen import Annealing, sharp_directions, sharpen
from linear.planted import gaussian, plant, seeded


def whitened(matrix: torch.Tensor) -> torch.Tensor:
    return torch.linalg.qr(matrix).Q * len(matrix) ** 0.5


def rough(directions: torch.Tensor, overlap: float, seed: int) -> torch.Tensor:
    """Unit vectors of the given overlap with the true ones."""
    noise = torch.randn(directions.shape, generator=seeded(seed), dtype=directions.dtype)
    noise = noise - (noise * directions).sum(1, keepdim=True) * directions
    noise = noise / noise.norm(dim=1, keepdim=True)
    return overlap * directions + (1 - overlap**2) ** 0.5 * noise


@pytest.fixture(scope="module")
def easy():
    planted = plant(gaussian(20, 60, 1), width=300)
    problem = planted.problem
    basis, triangle = torch.linalg.qr(problem.unit_rows)
    rows = basis * len(basis) ** 0.5
    true = planted.true_directions @ triangle.T
    true = true / true.norm(dim=1, keepdim=True)
    active = (planted.gradients != 0)[problem.live].T.double()
    features = whitened(problem.activation_map[problem.live])
    return problem, rows, features, record_link(problem, features, triangle), true, active


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("overlap", [0.98, 0.9])
def test_a_rough_direction_with_its_half_space_becomes_exact(easy, overlap, dtype):
    problem, rows, features, link, true, active = easy
    sides = (2 * active - 1) * 1.0
    # A tenth of the neurons on the wrong side, as the iteration leaves them.
    wrong = torch.rand(sides.shape, generator=seeded(3)) < 0.1
    sides = torch.where(wrong, -sides, sides)
    sharp = sharpen(
        rows.to(dtype),
        features.to(dtype),
        rough(true, overlap, 4).to(dtype),
        sides.to(dtype),
        zeros=problem.zeros_needed,
        link=link.to(dtype),
    )
    agreement = (sharp.double() @ true.T).abs()
    assert len(set(agreement.argmax(1).tolist())) == 20
    # Sharp enough for the null vector of its smallest entries' rows to be the exact direction.
    assert float((1 - agreement.amax(1)).max()) < 1e-3
    unit = rows / rows.norm(dim=1, keepdim=True)
    assert bool(sharp_directions(unit, sharp.double(), problem.zeros_needed)[0].all())


def test_random_directions_do_not_become_sharp(easy):
    problem, rows, features, link, true, _ = easy
    starts = torch.nn.functional.normalize(gaussian(30, 20, 5), dim=1)
    sides = gaussian(30, len(rows), 6)
    sharp = sharpen(
        rows,
        features,
        starts,
        sides,
        zeros=problem.zeros_needed,
        link=link,
        annealing=Annealing(rounds=5),
    )
    # Of 30 starts without any information a stray one may still fall into a basin (less than one
    # in ten do); what comes out must then be a true direction.
    assert len(sharp) <= 6
    assert all(float(row.max()) > 1 - 1e-3 for row in (sharp @ true.T).abs())


def test_sharpness_is_a_single_null_vector(easy):
    problem, rows, _, _, true, _ = easy
    unit = rows / rows.norm(dim=1, keepdim=True)
    mixed = torch.nn.functional.normalize(true[:1] + true[1:2], dim=1)
    candidates = torch.cat([true, rough(true[:3], 0.7, 1), mixed])
    sharp, exact = sharp_directions(unit, candidates, problem.zeros_needed)
    assert bool(sharp[:20].all())
    assert float(1 - (exact[:20] * true).sum(1).abs().min()) < 1e-12
    assert not bool(sharp[20:23].any())


def test_nothing_in_nothing_out(easy):
    problem, rows, features, link, _, _ = easy
    none = sharpen(
        rows,
        features,
        rows[:0],
        rows.new_zeros(0, len(rows)),
        zeros=problem.zeros_needed,
        link=link,
    )
    assert none.shape == (0, 20)
