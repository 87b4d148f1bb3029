from __future__ import annotations

import pytest
import torch

from gradaudit.linear.refine import exact_directions, null_vector, purify
from linear.planted import gaussian, plant


def unit(rows):
    return rows / rows.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-13), (torch.float32, 1e-6)])
@pytest.mark.parametrize("disturbance", [1e-6, 1e-4, 1e-3])
def test_a_disturbed_direction_snaps_back(dtype, limit, disturbance):
    planted = plant(gaussian(6, 60, 0), width=150, dtype=dtype)
    for index, direction in enumerate(planted.true_directions):
        near = unit(direction + disturbance * unit(gaussian(1, 6, index)[0]))
        (exact,) = exact_directions(planted.problem, near[None])
        assert float((exact * torch.sign(exact @ direction) - direction).norm()) < limit


def test_whatever_comes_of_a_random_direction_is_sparse():
    # Snapping may walk from anywhere to a true direction, but never to a vector of no account.
    planted = plant(gaussian(6, 60, 0), width=150)
    exact = exact_directions(planted.problem, unit(gaussian(40, 6, 3)))
    zeros = planted.problem.vanishing(exact)[0].sum(1)
    assert bool((zeros > planted.problem.zeros_needed).all())
    assert len(exact) < 20


def test_a_direction_with_too_few_zeros_is_refused():
    planted = plant(gaussian(6, 60, 0), width=150)
    direction = planted.true_directions[0]
    zeros = int(planted.problem.vanishing(direction[None])[0].sum())
    assert len(exact_directions(planted.problem, direction[None], zeros)) == 1
    assert len(exact_directions(planted.problem, direction[None], zeros + 1)) == 0


def test_a_plane_of_two_directions_is_split():
    planted = plant(gaussian(5, 60, 0), width=200)
    one, two = planted.true_directions[:2]
    zeros = planted.problem.vanishing(planted.true_directions)[0]
    shared = int((zeros[0] & zeros[1]).sum())
    assert shared > planted.problem.zeros_needed
    mixed = unit(0.6 * one + 0.8 * two)[None]
    pure = purify(planted.problem, mixed, 70)
    agreement = (pure @ torch.stack([one, two]).T).abs()
    assert bool((agreement.amax(0) > 1 - 1e-10).all())


def test_too_few_rows_give_nothing():
    problem = plant(gaussian(4, 20, 0), width=8).problem
    proposals = unit(gaussian(3, problem.batch_size, 1))
    assert len(purify(problem, proposals, 1)) == 0
    assert len(exact_directions(problem, proposals)) == 0


@pytest.mark.parametrize("rows", [4, 5, 40])
def test_null_vectors_are_null(rows):
    truth = unit(gaussian(1, 5, 0)[0])
    matrix = gaussian(rows, 5, 1)
    matrix = unit(matrix - (matrix @ truth)[:, None] * truth)
    null = null_vector(matrix)
    assert float((matrix @ null).abs().max()) < 1e-14
    assert float((null @ truth).abs()) == pytest.approx(1.0, abs=1e-13)


def test_a_kernel_of_two_dimensions_is_no_line():
    matrix = gaussian(10, 5, 1)
    matrix[:, :2] = 0
    assert null_vector(unit(matrix)) is None
    assert null_vector(unit(gaussian(3, 5, 1))) is None


def test_one_dimension_is_its_own_kernel():
    assert null_vector(torch.zeros(2, 1, dtype=torch.float64)).abs().tolist() == [1.0]
