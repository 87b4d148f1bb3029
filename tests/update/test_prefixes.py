from __future__ import annotations

import pytest
import torch

from gradaudit.update import outer_prefix

INNER = {"0.weight": torch.ones(2, 3), "0.bias": torch.ones(2)}


def under(prefix, tensors):
    return {prefix + name: tensor for name, tensor in tensors.items()}


@pytest.mark.parametrize("prefix", ["net.", "model.encoder."])
def test_the_prefix_is_found_among_other_tensors(prefix):
    outer = {"head.weight": torch.ones(4, 2), **under(prefix, INNER), "count": torch.tensor(3)}
    assert outer_prefix(INNER, outer) == prefix
    # A part of the tensors will do, and counters are not looked for.
    inner = {"steps": torch.tensor(1), "0.bias": INNER["0.bias"]}
    assert outer_prefix(inner, outer) == prefix


@pytest.mark.parametrize(
    "outer",
    [
        INNER,
        {**INNER, **under("net.", INNER)},
        {**under("a.", INNER), **under("b.", INNER)},
        under("net", INNER),
        {"net.0.weight": torch.ones(2, 3)},
        {**under("net.", INNER), "net.0.bias": torch.ones(3)},
        {},
    ],
    ids=["equal", "both", "two", "no dot", "a part", "another shape", "nothing"],
)
def test_no_prefix_where_it_is_not_needed_or_not_certain(outer):
    assert outer_prefix(INNER, outer) == ""


def test_nothing_to_find():
    assert outer_prefix({"steps": torch.tensor(1)}, INNER) == ""
