from __future__ import annotations

import pytest
import torch

from gradaudit.chain import AveragePool, ChannelScale

SCALE = ChannelScale(
    "bn",
    torch.tensor([2.0, -0.5], dtype=torch.float64),
    torch.tensor([1.0, 3.0], dtype=torch.float64),
    (2, 6, 5),
)
MAPS = {
    "mean": AveragePool("pool", (2, 6, 5), (2, 3, 2), (2, 2), (2, 2)),
    "overlapping": AveragePool("pool", (2, 6, 5), (2, 6, 5), (3, 3), (1, 1), (1, 1), False),
    "sum": AveragePool("pool", (2, 6, 5), (2, 3, 3), (2, 3), (2, 2), (0, 1), True, 1),
    "over the edge": AveragePool("pool", (2, 6, 5), (2, 3, 3), (2, 2), (2, 2), ceil=True),
    "scale": SCALE,
}


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("name", MAPS)
def test_adjoints(name):
    step = MAPS[name]
    inputs, outputs = draw(2, *step.input_shape), draw(2, *step.output_shape)
    assert step(inputs).shape == outputs.shape
    forward = (step.linear(inputs) * outputs).sum()
    backward = (inputs * step.adjoint(outputs)).sum()
    assert torch.allclose(forward, backward, rtol=1e-12)


def test_a_scale_is_undone():
    inputs = draw(2, 2, 6, 5)
    assert torch.allclose(SCALE.inverse(SCALE(inputs)), inputs, rtol=1e-13)
