from __future__ import annotations

import pytest
import torch

from gradaudit.linear.closed_form import invert_single
from gradaudit.linear.disaggregate import disaggregate, preactivations, zero_pattern
from gradaudit.linear.problem import Setting
from linear.planted import gaussian, plant, worst_error


@pytest.mark.parametrize("setting", list(Setting))
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("batch", [2, 3, 5])
def test_true_directions_give_the_records_and_their_gradients(setting, dtype, limit, batch):
    planted = plant(gaussian(batch, 50, 1), width=80, setting=setting, dtype=dtype)
    rebuilt = disaggregate(planted.problem, planted.true_directions)
    assert rebuilt.scale_identified
    assert worst_error(rebuilt.records, planted.records) < limit
    assert worst_error(rebuilt.activation_gradients.T, planted.gradients.T) < limit


@pytest.mark.parametrize("setting", list(Setting))
@pytest.mark.parametrize("batch", [2, 4])
def test_without_a_bias_records_are_unit_vectors_of_the_right_sign(setting, batch):
    planted = plant(gaussian(batch, 50, 1), width=80, setting=setting, bias=False)
    flip = torch.tensor([1.0, -1.0, -1.0, 1.0])[:batch, None]
    rebuilt = disaggregate(planted.problem, planted.true_directions * flip)
    assert not rebuilt.scale_identified
    assert torch.allclose(rebuilt.records.norm(dim=1), torch.ones(batch).double())
    truth = planted.records / planted.records.norm(dim=1, keepdim=True)
    assert worst_error(rebuilt.records, truth) < 1e-12


@pytest.mark.parametrize("setting", list(Setting))
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_the_gradient_whatever_the_directions(setting, bias):
    planted = plant(gaussian(4, 50, 1), width=80, setting=setting, bias=bias)
    wrong = gaussian(4, 4, 8)
    rebuilt = disaggregate(planted.problem, wrong / wrong.norm(dim=1, keepdim=True))
    product = rebuilt.activation_gradients @ rebuilt.records
    assert torch.allclose(product, planted.layer.weight_gradient, atol=1e-12)


def test_dependent_directions_give_nothing():
    planted = plant(gaussian(3, 50, 1), width=80)
    directions = planted.true_directions.clone()
    directions[1] = directions[0]
    assert disaggregate(planted.problem, directions) is None


def test_the_pattern_of_zeros_is_the_truth_s():
    planted = plant(gaussian(4, 50, 1), width=80)
    live = planted.problem.live
    pattern = zero_pattern(planted.problem, planted.gradients)
    assert torch.equal(pattern[live], (planted.gradients == 0)[live])
    before = preactivations(planted.problem, planted.records)
    assert torch.equal((before <= 0)[live], pattern[live])


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-13), (torch.float32, 1e-6)])
def test_one_record_in_closed_form(sign, dtype, limit):
    planted = plant(sign * gaussian(1, 40, 3), width=30, dtype=dtype)
    inversion = invert_single(planted.problem)
    assert inversion.directions_found == 1
    assert worst_error(inversion.batch.records, planted.records) < limit


def test_one_record_without_a_bias_keeps_its_sign():
    planted = plant(gaussian(1, 40, 3), width=30, bias=False)
    truth = planted.records / planted.records.norm()
    assert worst_error(invert_single(planted.problem).batch.records, truth) < 1e-13
