from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gradaudit.linear.partial import partial_batch, row_error
from gradaudit.linear.problem import Setting
from linear.planted import gaussian, plant


def lowered(seed: int, *, size: int = 14, width: int = 300, by: float = 0.6, **options):
    """A layer whose neurons fire for few of its records."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64) * 2 - 1

    layers = [
        (uniform(width, 30) / 30**0.5, uniform(width) / 30**0.5 - by),
        (uniform(8, width) / width**0.5, uniform(8) / width**0.5),
    ]
    return plant(gaussian(size, 30, seed), seed=seed, layers=layers, **options)


@pytest.mark.parametrize("missing", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_records_are_read_off_rows_of_known_ones(seed, missing):
    planted = lowered(seed)
    directions = planted.true_directions[missing:]
    batch = partial_batch(planted.problem, directions)
    assert batch.scale_identified
    assert len(batch.records) >= 14 - 2 * missing
    true = planted.records[missing:]
    place = (directions[:, None] == batch.directions).all(2).to(torch.int8).argmax(0)
    right = (batch.records - true[place]).norm(dim=1) < 1e-9 * true[place].norm(dim=1)
    # A missing record may hide in a single row; the certificate is for that.
    assert int(right.sum()) >= len(place) - 1
    columns = planted.gradients[:, missing:][:, place]
    assert torch.allclose(batch.activation_gradients, columns, rtol=1e-7, atol=1e-13)


def test_most_rows_decide_where_some_hide_a_missing_record():
    """The missing record's gradient is a thousandth: rows that it fires alone with another pass."""
    planted = lowered(3)
    gradients = planted.gradients.clone()
    gradients[:, 0] = gradients[:, 1:].mean(1) * 1e-3 * (gradients[:, 0] != 0)
    layer = replace(
        planted.layer,
        weight_gradient=gradients @ planted.records,
        bias_gradient=gradients.sum(1),
    )
    from gradaudit.linear.factor import factor_gradient
    from gradaudit.linear.problem import build_problem

    factors = factor_gradient(layer.weight_gradient, generator=torch.Generator().manual_seed(0))
    problem = build_problem(layer, factors, Setting.SPARSE_GRADIENT)
    columns = (factors.left.T @ gradients).T
    directions = torch.nn.functional.normalize(columns, dim=1)[1:]
    batch = partial_batch(problem, directions)
    error = (batch.records[:, None] - planted.records).norm(dim=2).amin(1)
    assert int((error < 1e-9).sum()) >= 10


def test_without_directions_or_a_scale_there_is_nothing():
    planted = lowered(0)
    directions = planted.true_directions[2:]
    assert partial_batch(planted.problem, directions[:0]) is None
    no_scale = replace(planted.layer, bias_gradient=None)
    assert partial_batch(replace(planted.problem, layer=no_scale), directions) is None
    transposed = plant(gaussian(6, 20, 0), setting=Setting.SPARSE_INPUT)
    assert partial_batch(transposed.problem, transposed.true_directions[1:]) is None


def test_neurons_that_all_records_fire_show_none():
    planted = lowered(0, by=-3.0)
    assert partial_batch(planted.problem, planted.true_directions[2:]) is None


def test_the_error_of_an_entry_covers_what_rounding_leaves():
    planted = lowered(1, dtype=torch.float32)
    problem = planted.problem
    directions = planted.true_directions
    zero = planted.gradients == 0
    size = (directions @ problem.sparse.T).abs()
    error = row_error(problem, directions)
    ratio = (size / error)[zero.T & problem.live]
    # Standard deviations: of a few thousand entries the largest is hardly beyond eight.
    assert float(ratio.max()) < 8
    assert float(ratio.square().mean().sqrt()) > 0.02
