from __future__ import annotations

import pytest
import torch

from gradaudit.layers import is_output, plan_layers
from gradaudit.update import Update


def update(shapes: dict[str, tuple[int, ...]], only: list[str] | None = None) -> Update:
    weights = {name: torch.zeros(shape) for name, shape in shapes.items()}
    return Update(weights, {name: weights[name] for name in only or shapes})


MLP = {
    "fc1.weight": (5, 8), "fc1.bias": (5,), "fc2.weight": (4, 5), "fc2.bias": (4,),
    "fc3.weight": (3, 4), "fc3.bias": (3,),
}  # fmt: skip


def roles(plan) -> list[tuple[str, str]]:
    return [(layer.name, role) for layer, role in plan.linear]


@pytest.mark.parametrize("order", [list(MLP), sorted(MLP, reverse=True)])
def test_a_chain_is_put_in_order(order):
    plan = plan_layers(update({name: MLP[name] for name in order}))
    assert roles(plan) == [("fc1", "input"), ("fc2", "interior"), ("fc3", "output")]
    assert plan.other == ()
    assert plan.guess.model is not None
    assert [is_output(plan, layer) for layer, _ in plan.linear] == [False, False, True]


def test_a_single_layer_is_first_and_last():
    plan = plan_layers(update({"fc.weight": (3, 8), "fc.bias": (3,)}))
    assert roles(plan) == [("fc", "input")]
    assert is_output(plan, plan.linear[0][0])


def test_after_a_convolution_no_layer_has_records():
    shapes = {"conv.weight": (6, 1, 3, 3), "conv.bias": (6,), **MLP}
    plan = plan_layers(update(shapes))
    assert roles(plan) == [("fc1", "interior"), ("fc2", "interior"), ("fc3", "output")]
    ((name, shape, reason),) = plan.other
    assert (name, shape) == ("conv", (6, 1, 3, 3))
    assert "4-dimensional weight, as of a convolution" in reason
    assert plan.guess.model is None


def test_a_normalisation_is_named():
    shapes = {"fc1.weight": (5, 8), "norm.weight": (5,), "norm.bias": (5,), "fc2.weight": (3, 5)}
    plan = plan_layers(update(shapes))
    assert roles(plan) == [("fc1", "input"), ("fc2", "output")]
    assert [name for name, _, _ in plan.other] == ["norm"]
    assert "normalisation" in plan.other[0][2]


def test_layers_whose_change_is_not_seen():
    plan = plan_layers(update(MLP, only=["fc2.weight", "fc2.bias"]))
    assert roles(plan) == [("fc2", "interior")]


def test_a_parameter_without_a_layer():
    plan = plan_layers(update({"fc1.weight": (5, 8), "scale": (1,)}))
    assert [name for name, _, _ in plan.other] == ["scale"]


def test_what_comes_before_a_layer():
    shapes = {"fc1.weight": (5, 8), "norm.weight": (5,), "norm.bias": (5,), "fc2.weight": (3, 5)}
    plan = plan_layers(update(shapes))
    first, second = (layer for layer, _ in plan.linear)
    assert plan.before(first) == ()
    assert plan.before(second) == ("fc1", "norm")
    # By the chain of sizes where there is one, whatever the update's order.
    plan = plan_layers(update({"b.weight": (3, 5), "a.weight": (5, 8)}))
    assert [plan.before(layer) for layer, _ in plan.linear] == [(), ("a",)]
