from __future__ import annotations

import pytest
import torch

from gradaudit.linear.factor import factor_gradient
from gradaudit.linear.problem import Setting, build_problem
from gradaudit.update import LinearLayer
from linear.planted import gaussian, plant


@pytest.mark.parametrize("setting", list(Setting))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_zeros_of_true_directions_are_zeros_of_the_truth(setting, dtype):
    planted = plant(gaussian(5, 60, 2), width=150, setting=setting, factor_like=dtype)
    problem = planted.problem
    truth = planted.gradients.T if setting is Setting.SPARSE_GRADIENT else planted.records
    zero, active = problem.pattern(planted.true_directions)
    live = problem.live
    assert not bool((zero & active).any())
    # No zero is called active; what is called zero is, but for entries the precision hides.
    assert not bool((active & (truth == 0))[:, live].any())
    wrong = int((zero & (truth != 0))[:, live].sum())
    assert wrong <= (0 if torch.finfo(dtype).eps < 1e-6 else 12)
    missed = ((truth == 0) & ~zero)[:, live].double().mean()
    assert float(missed) < 0.1


def test_dead_rows_say_nothing():
    planted = plant(gaussian(3, 40, 0), width=60)
    dead = (planted.layer.weight_gradient == 0).all(1)
    assert bool(dead.any())
    assert not bool(planted.problem.live[dead].any())
    assert not bool(planted.problem.informative(planted.true_directions)[:, dead].any())
    assert len(planted.problem.unit_rows) == int((~dead).sum())


@pytest.mark.parametrize("scale", [2.0**-90, 2.0**90])
def test_scale_changes_no_decision(scale):
    planted = plant(gaussian(4, 40, 0), width=60, dtype=torch.float32)
    layer = planted.layer
    scaled = LinearLayer(
        "fc", layer.weight, layer.bias, layer.weight_gradient * scale, layer.bias_gradient * scale
    )
    factors = factor_gradient(scaled.weight_gradient, generator=torch.Generator())
    problem = build_problem(scaled, factors, Setting.SPARSE_GRADIENT)
    columns = (factors.left.T @ planted.gradients).T
    directions = columns / columns.norm(dim=1, keepdim=True)
    plain = planted.problem.pattern(planted.true_directions)
    again = problem.pattern(directions)
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))
