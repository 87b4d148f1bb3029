from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradaudit.capture.positional import is_positional, name_by_position
from gradaudit.errors import InputError


def _named(*shapes: tuple[int, ...]) -> dict[str, torch.Tensor]:
    return {f"layer{i}.weight": torch.full(shape, float(i)) for i, shape in enumerate(shapes)}


def _unnamed(tensors, stem: str = "") -> dict[str, torch.Tensor]:
    return {f"{stem}{i}": tensor for i, tensor in enumerate(tensors)}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["0", "1", "2"], True),
        (["arr_0", "arr_1"], True),
        (["2", "0", "1"], True),
        (["1", "2"], False),
        (["0", "1", "x"], False),
        (["0.weight", "0.bias"], False),
        (["0", "arr_0"], False),
        (["arr_" + "9" * 5000], False),
    ],
)
def test_is_positional(names, expected):
    assert is_positional(dict.fromkeys(names, torch.ones(1))) is expected


@given(st.integers(1, 25), st.sampled_from(["", "arr_"]), st.randoms(use_true_random=False))
def test_numbers_count_not_text(count, stem, random):
    weights = _named(*[(2, 2)] * count)
    items = list(_unnamed(weights.values(), stem).items())
    random.shuffle(items)
    named = name_by_position("f", dict(items), weights, weights_keep_order=True)
    assert all(torch.equal(named[name], weights[name]) for name in weights)


def test_buffers_may_be_left_out():
    weights = {
        "conv.weight": torch.ones(2, 2),
        "bn.running_mean": torch.zeros(5),
        "bn.num_batches_tracked": torch.tensor(3),
        "fc.weight": torch.ones(2, 2) * 2,
    }
    for kept in (list(weights), ["conv.weight", "fc.weight"]):
        unnamed = _unnamed(weights[name] for name in kept)
        named = name_by_position("f", unnamed, weights, weights_keep_order=True)
        assert list(named) == kept
        assert all(torch.equal(named[name], weights[name]) for name in kept)


def test_lost_order_needs_shapes_that_all_differ():
    weights = _named((2, 3), (4,), (5, 2))
    shuffled = dict(reversed(weights.items()))
    unnamed = _unnamed(weights.values())
    named = name_by_position("f", unnamed, shuffled, weights_keep_order=False)
    assert all(torch.equal(named[name], weights[name]) for name in weights)
    twins = _named((2, 3), (2, 3))
    with pytest.raises(InputError, match=r"do not settle.*with torch.save"):
        name_by_position("f", _unnamed(twins.values()), twins, weights_keep_order=False)


@pytest.mark.parametrize("shapes", [[(2, 3)], [(3, 2), (4,)], [(2, 3), (4,), (4,)], [(4,), (4,)]])
def test_other_shapes_are_refused(shapes):
    unnamed = _unnamed(torch.ones(shape) for shape in shapes)
    with pytest.raises(InputError, match="do not settle which is which"):
        name_by_position("f", unnamed, _named((2, 3), (4,)), weights_keep_order=True)


def test_both_unnamed():
    unnamed = _unnamed([torch.ones(2)])
    with pytest.raises(InputError, match=r"save model\.state_dict"):
        name_by_position("f", unnamed, unnamed, weights_keep_order=True)
