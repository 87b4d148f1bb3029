from __future__ import annotations

import numpy as np
import pytest
import torch

from gradaudit.budget import Budget, Control
from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.invert import invert
from gradaudit.linear.problem import Setting, build_problem
from gradaudit.update import LinearLayer
from linear.planted import gaussian, network, plant, search, seeded, worst_error


@pytest.mark.parametrize("setting", list(Setting))
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-11), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("batch", "width", "inputs"), [(3, 60, 40), (5, 100, 20), (8, 200, 300)])
def test_batches_come_back_exactly(setting, dtype, limit, batch, width, inputs):
    planted = plant(gaussian(batch, inputs, 2), width=width, dtype=dtype, setting=setting)
    inversion = search(planted.problem)
    assert inversion.matching == 1.0
    assert inversion.stopped == ""
    assert worst_error(inversion.batch.records, planted.records) < limit
    assert worst_error(inversion.batch.activation_gradients.T, planted.gradients.T) < limit


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float16, 5e-3), (torch.bfloat16, 5e-2)])
def test_sixteen_bits_are_enough(dtype, limit):
    planted = plant(gaussian(4, 100, 1), width=200, factor_like=dtype)
    inversion = search(planted.problem, submatrices=20_000)
    assert worst_error(inversion.batch.records, planted.records) < limit


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_as_many_inputs_as_records(dtype):
    # Nothing is left of the gradient to measure its rounding by.
    planted = plant(gaussian(8, 8, 1), width=100, dtype=dtype)
    inversion = search(planted.problem)
    assert worst_error(inversion.batch.records, planted.records) < 1e-5


def test_inputs_that_are_never_negative_need_the_relaxed_filter():
    records = torch.rand(6, 100, generator=seeded(1), dtype=torch.float64)
    planted = plant(records, width=200)
    assert float((planted.gradients == 0).double().mean()) < 0.5
    inversion = search(planted.problem)
    assert worst_error(inversion.batch.records, records) < 1e-10


def test_records_of_unequal_weight_are_found():
    # The gradient of the last record is 10^-4 of the first's.
    planted = plant(gaussian(5, 60, 1), width=150, layers=network([60, 150, 150, 10], 1))

    weights = torch.logspace(0, -4, 5, dtype=torch.float64)
    columns = planted.gradients * weights
    layer = planted.layer
    layer = LinearLayer("fc", layer.weight, layer.bias, columns @ planted.records, columns.sum(1))
    factors = factor_gradient(layer.weight_gradient, generator=seeded(0))
    problem = build_problem(layer, factors, Setting.SPARSE_GRADIENT)
    inversion = search(problem)
    assert worst_error(inversion.batch.records, planted.records) < 1e-7


def test_the_judge_ends_a_search_that_cannot_match():
    planted = plant(gaussian(4, 60, 1), width=100)
    calls = []

    def accept(batch) -> bool:
        calls.append(batch)
        return True

    inversion = search(planted.problem, accept=accept)
    # A perfect match needs no judge.
    assert inversion.matching == 1.0
    assert calls == []


def test_progress_is_reported_and_counted():
    seen = []
    control = Control(Budget(seconds=30.0), seen.append)
    planted = plant(gaussian(10, 60, 1), width=200)
    inversion = invert(planted.problem, proposer="spear", generator=seeded(0), control=control)
    assert seen
    assert [p.tried for p in seen] == sorted(p.tried for p in seen)
    assert all(p.wanted == 10 for p in seen)
    assert inversion.counters["submatrices"] == seen[-1].tried
    # The round that completes the batch too.
    assert seen[-1].found == 10
    assert set(inversion.seconds) >= {"propose", "verify", "select", "disaggregate"}


def test_digits(data_folder):
    images = np.load(data_folder / "mnist_3000.npz")["images"][:6].reshape(6, -1) / 255.0
    records = torch.from_numpy(images)
    planted = plant((records - 0.1307) / 0.3081, width=200, dtype=torch.float32)
    inversion = search(planted.problem)
    assert worst_error(inversion.batch.records, planted.records) < 1e-4
