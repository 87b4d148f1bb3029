from itertools import pairwise

import pytest
import torch
from torch import nn

from gradaudit.models import infer_mlp, mlp


def weights(*sizes, names=None, bias=True):
    generator = torch.Generator().manual_seed(0)
    found = {}
    for i, (n, m) in enumerate(pairwise(sizes)):
        name = names[i] if names else f"fc{i + 1}"
        found[f"{name}.weight"] = torch.randn(m, n, generator=generator)
        if bias:
            found[f"{name}.bias"] = torch.randn(m, generator=generator)
    return found


@pytest.mark.parametrize(
    "names",
    [
        ("fc1", "fc2", "fc3"),
        ("net.0", "net.2", "net.4"),
        ("body.a.x", "body.b.x", "head"),
        ("flatten", "relu1", "0"),
        ("layers.relu2", "layers.relu1", "layers.relu3"),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_names_are_kept_and_the_function_is_the_networks(names, bias):
    state = weights(6, 5, 4, 3, names=names, bias=bias)
    guess = infer_mlp(state)
    assert guess.layers == names
    assert set(guess.model.state_dict()) == set(state)
    x = torch.randn(2, 1, 2, 3, generator=torch.Generator().manual_seed(1))
    reference = mlp(6, [5, 4], 3, bias=bias)
    reference.load_state_dict(dict(zip(reference.state_dict(), state.values(), strict=True)))
    torch.testing.assert_close(guess.model(x), reference(x))
    doubled = {name: 2 * tensor for name, tensor in state.items()}
    reference.load_state_dict(dict(zip(reference.state_dict(), doubled.values(), strict=True)))
    found = torch.func.functional_call(guess.model, doubled, (x,))
    torch.testing.assert_close(found, reference(x))


def test_memory_is_shared_and_parameters_are_differentiable():
    state = weights(3, 2)
    parameter = infer_mlp(state).model.get_parameter("fc1.weight")
    assert parameter.data_ptr() == state["fc1.weight"].data_ptr()
    assert parameter.requires_grad


def test_bare_layer():
    layer = nn.Linear(4, 2)
    guess = infer_mlp(layer.state_dict())
    x = torch.ones(3, 2, 2)
    torch.testing.assert_close(guess.model(x), layer(x.flatten(1)))
    assert guess.layers == ("",)


def test_order_is_found_only_when_it_is_the_only_one():
    state = weights(6, 5, 4, 3)
    shuffled = {name: state[name] for name in sorted(state, reverse=True)}
    assert infer_mlp(shuffled).layers == ("fc1", "fc2", "fc3")
    ambiguous = {"b.weight": torch.ones(3, 4), "a.weight": torch.ones(5, 4)}
    assert "any order" in infer_mlp(ambiguous).reason
    several = {"a.weight": torch.ones(5, 3), "b.weight": torch.ones(3, 3)}
    several |= {"c.weight": torch.ones(3, 3)}
    guess = infer_mlp(several)
    assert guess.model is None
    assert "several orders" in guess.reason


def test_names_sorted_as_text_are_read_by_their_numbers():
    sizes = [4] * 12
    state = weights(*sizes, bias=False)
    as_text = {name: state[name] for name in sorted(state)}
    assert infer_mlp(as_text).layers == tuple(f"fc{i}" for i in range(1, 12))
    own = {f"{name}.weight": torch.ones(4, 4) for name in ("z", "fc10", "fc2")}
    assert infer_mlp(own).layers == ("z", "fc10", "fc2")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({}, "No tensor"),
        ({"conv.weight": torch.ones(2, 1, 3, 3)}, "no matrix"),
        ({"fc.weight": torch.ones(2, 3), "bn.weight": torch.ones(2)}, "'bn.weight'"),
        ({"fc.weight": torch.ones(2, 3), "bn.running_mean": torch.ones(2)}, "running_mean"),
        ({"fc.weight": torch.ones(2, 3), "fc.bias": torch.ones(3)}, "not its layer's"),
        ({"fc.weight": torch.ones(2, 3), "gc.bias": torch.ones(2)}, "'gc.bias'"),
        ({"a.weight": torch.ones(2, 3), "b.weight": torch.ones(2, 2).double()}, "floating-point"),
        ({"a.weight": torch.ones(2, 3), "a.b.weight": torch.ones(2, 2)}, "nested"),
        ({"forward.weight": torch.ones(2, 3)}, "nested"),
        (weights(5, 4, 3, 2, names=("a.x", "b.y", "a.z")), "nested"),
    ],
)
def test_no_chain_has_a_reason(state, reason):
    guess = infer_mlp(state)
    assert guess.model is None
    assert guess.layers == ()
    assert reason in guess.reason


def test_many_equal_layers_end():
    state = {f"{i}.weight": torch.ones(2, 2) for i in range(40)} | {"x.weight": torch.ones(1, 3)}
    assert infer_mlp(state).model is None
