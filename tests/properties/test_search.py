"""What must not change what is found: order, scale, rotation, dead neurons, the update's sign."""

from __future__ import annotations

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from linear.planted import Planted, gaussian, plant, search, seeded, worst_error

from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Setting, build_problem
from gradaudit.update import LinearLayer

FEW = settings(max_examples=6)
seeds = st.integers(0, 10_000)


def easy(seed: int) -> Planted:
    """A batch of three, each with zeros enough to prove its direction."""
    planted = plant(gaussian(3, 20, seed), width=60, seed=seed)
    assume(planted.problem.batch_size == 3)
    zeros = planted.problem.vanishing(planted.true_directions)[0].sum(1)
    assume(int(zeros.min()) > planted.problem.zeros_needed + 8)
    return planted


def records_of(layer: LinearLayer, seed: int = 0) -> torch.Tensor:
    factors = factor_gradient(layer.weight_gradient, generator=seeded(seed))
    problem = build_problem(layer, factors, Setting.SPARSE_GRADIENT)
    inversion = search(problem, submatrices=60_000, seed=seed)
    assert inversion.batch is not None
    return inversion.batch.records


@FEW
@given(seeds)
def test_the_order_of_neurons(seed):
    planted = easy(seed)
    layer, order = planted.layer, torch.randperm(60, generator=seeded(seed))
    tensors = (layer.weight, layer.bias, layer.weight_gradient, layer.bias_gradient)
    moved = LinearLayer("fc", *(tensor[order] for tensor in tensors))
    assert worst_error(records_of(moved), planted.records) < 1e-9


@FEW
@given(seeds)
def test_any_rotation_of_the_inputs_rotates_the_records(seed):
    planted = easy(seed)
    layer = planted.layer
    rotation = torch.linalg.qr(gaussian(20, 20, seed + 1)).Q
    turned = LinearLayer(
        "fc",
        layer.weight @ rotation,
        layer.bias,
        layer.weight_gradient @ rotation,
        layer.bias_gradient,
    )
    assert worst_error(records_of(turned), planted.records @ rotation) < 1e-9


@FEW
@given(seeds, st.sampled_from([1e-30, 1e-9, -1.0, -1e-3, 1e9, 1e30]))
def test_the_scale_and_the_sign_of_the_update(seed, scale):
    planted = easy(seed)
    layer = planted.layer
    scaled = LinearLayer(
        "fc", layer.weight, layer.bias, layer.weight_gradient * scale, layer.bias_gradient * scale
    )
    assert worst_error(records_of(scaled), planted.records) < 1e-9


@FEW
@given(seeds, st.floats(1e-3, 1e3))
def test_the_unit_of_the_inputs(seed, unit):
    planted = easy(seed)
    layer = planted.layer
    scaled = LinearLayer(
        "fc", layer.weight / unit, layer.bias, layer.weight_gradient * unit, layer.bias_gradient
    )
    assert worst_error(records_of(scaled), planted.records * unit) < 1e-9


@FEW
@given(seeds, st.integers(1, 40))
def test_dead_neurons(seed, count):
    planted = easy(seed)
    layer = planted.layer
    dead = LinearLayer(
        "fc",
        torch.cat([layer.weight, gaussian(count, 20, seed)]),
        torch.cat([layer.bias, torch.full((count,), -99.0, dtype=torch.float64)]),
        torch.cat([layer.weight_gradient, torch.zeros(count, 20, dtype=torch.float64)]),
        torch.cat([layer.bias_gradient, torch.zeros(count, dtype=torch.float64)]),
    )
    assert worst_error(records_of(dead), planted.records) < 1e-9


@FEW
@given(seeds)
def test_the_order_of_records(seed):
    planted = easy(seed)
    order = torch.randperm(3, generator=seeded(seed))
    layer = planted.layer
    product = planted.gradients[:, order] @ planted.records[order]
    again = LinearLayer("fc", layer.weight, layer.bias, product, layer.bias_gradient)
    assert worst_error(records_of(again), planted.records) < 1e-9


@FEW
@given(seeds, seeds)
def test_the_seed_of_the_search(seed, other):
    planted = easy(seed)
    one, two = records_of(planted.layer), records_of(planted.layer, other)
    assert worst_error(one, two) < 1e-9
