from __future__ import annotations

import pytest
import torch

from gradaudit.capture.assemble import difference
from gradaudit.errors import InputError


def test_half_precision_is_subtracted_in_float32():
    """Both are exact in half precision; their difference is not."""
    before = {"w": torch.tensor([1.0], dtype=torch.float16)}
    after = {"w": torch.tensor([2.0**-13], dtype=torch.float16)}
    change = difference(before, after)["w"]
    assert change.dtype == torch.float32
    assert float(change) == 2.0**-13 - 1.0
    assert float(after["w"] - before["w"]) != 2.0**-13 - 1.0


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (torch.bfloat16, torch.bfloat16, torch.float32),
        (torch.float16, torch.bfloat16, torch.float32),
        (torch.float32, torch.float16, torch.float32),
        (torch.float64, torch.float32, torch.float64),
    ],
)
def test_dtypes(before, after, expected):
    change = difference({"w": torch.ones(2, dtype=before)}, {"w": torch.ones(2, dtype=after)})
    assert change["w"].dtype == expected


def test_buffers_of_both_kinds_are_left_out():
    before = {
        "bn.weight": torch.ones(2),
        "bn.running_mean": torch.zeros(2),
        "bn.running_var": torch.ones(2),
        "bn.num_batches_tracked": torch.tensor(0),
        "embeddings.position_ids": torch.arange(3),
    }
    after = {k: t + 1 for k, t in before.items()}
    assert list(difference(before, after)) == ["bn.weight"]


def test_names_and_shapes():
    with pytest.raises(InputError, match="weights_after"):
        difference({"w": torch.ones(2)}, {"v": torch.ones(2)})
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        difference({"w": torch.ones(2)}, {"w": torch.ones(3)})
