"""Equations of a block with a skip connection, against singular values of the whole system."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.grad import conv2d_weight

from gradaudit.chain import chain_of
from gradaudit.rank.describe import architecture_of
from gradaudit.rank.equations import RELU, equations_of
from gradaudit.theory import layer_rank
from rank.material import SmallBlock

# Of singular values relative to the largest, in matrices of some hundred rows.
ZERO = 1e-10


def rows_of(model: nn.Module, *shape: int):
    architecture = architecture_of(chain_of(model, shape))
    return architecture, {row.name: row for row in equations_of(architecture.parts, shape)}


def rank(*rows: tuple[torch.Tensor, ...]) -> int:
    values = torch.linalg.svdvals(torch.cat([torch.cat(row, dim=1) for row in rows]))
    return int((values > ZERO * values[0]).sum())


def units(shape: tuple[int, ...]) -> torch.Tensor:
    size = torch.Size(shape).numel()
    return torch.eye(size, dtype=torch.float64).reshape(size, *shape)


def forward_matrix(module: nn.Module, shape: tuple[int, ...]) -> torch.Tensor:
    return module(units(shape)).flatten(1).T.detach()


def gradient_matrix(module: nn.Module, shape: tuple[int, ...], k: torch.Tensor) -> torch.Tensor:
    """How the weight's gradient depends on the input."""
    columns = [
        conv2d_weight(unit[None], module.weight.shape, k, module.stride, module.padding).flatten()
        for unit in units(shape)
    ]
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize(
    ("inputs", "width", "outputs", "stride", "size"),
    [
        pytest.param(3, 3, 3, 1, 6, id="identity, open"),
        pytest.param(2, 2, 2, 1, 3, id="identity, determined"),
        pytest.param(2, 3, 4, 2, 6, id="projection, determined"),
        pytest.param(4, 8, 3, 2, 10, id="projection, open"),
        pytest.param(1, 6, 2, 1, 6, id="projection without stride"),
    ],
)
def test_a_block_s_last_layer_and_its_shortcut_share_the_sum(inputs, width, outputs, stride, size):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        block = SmallBlock(inputs, width, outputs, stride)
        x_shape = (inputs, size, size)
        architecture, rows = rows_of(block, *x_shape)
        h_shape = rows["conv1"].output_shape
        k = torch.randn(1, *rows["conv2"].output_shape, dtype=torch.float64)
        k1 = torch.randn(1, *h_shape, dtype=torch.float64)
    last, first = rows["conv2"].rank, rows["conv1"].rank
    on_h = (gradient_matrix(block.conv2, h_shape, k), forward_matrix(block.conv2, h_shape))
    through = forward_matrix(block.shortcut, x_shape)
    plain = isinstance(block.shortcut, nn.Identity)
    gradient = through[:0] if plain else gradient_matrix(block.shortcut, x_shape, k)
    open_h, open_x = (torch.zeros(len(m), n.shape[1], dtype=torch.float64)
                      for m, n in ((gradient, on_h[0]), (on_h[0], through)))  # fmt: skip
    together = rank((on_h[0], open_x), (open_h, gradient), (on_h[1], through))
    alone = rank((gradient,), (through,))
    if not plain:
        (shortcut,) = architecture.blocks()[0].shortcut
        assert alone == layer_rank(shortcut.sizes).exact_rank
    assert last.exact_rank == together - alone
    own = (gradient_matrix(block.conv1, x_shape, k1),), (forward_matrix(block.conv1, x_shape),)
    assert first.exact_rank == rank(*own, (gradient,), (through,))


def test_a_single_layer_with_a_shortcut_is_a_layer_of_one_output():
    class OneLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 3, padding=1, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x) + x

    model = OneLayer().double()
    _, rows = rows_of(model, 2, 7, 7)
    k = torch.randn(1, 2, 7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    system = (
        (gradient_matrix(model.conv, (2, 7, 7), k),),
        (forward_matrix(model.conv, (2, 7, 7)) + torch.eye(98, dtype=torch.float64),),
    )
    assert rows["conv"].rank.exact_rank == rank(*system)


def test_pooling_before_the_activation_leaves_the_means_of_the_output():
    model = nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.AvgPool2d(2), nn.Tanh()).double()
    _, rows = rows_of(model, 2, 8, 8)
    row = rows["0"]
    shape = (2, 8, 8)
    pooled = torch.randn(
        1, 3, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    )
    k = pooled.repeat_interleave(2, 2).repeat_interleave(2, 3) / 4
    system = (gradient_matrix(model[0], shape, k),), (forward_matrix(model[:2], shape),)
    assert row.upper_bound
    assert row.rank.weight_constraints == 27
    assert rank(*system) <= row.rank.exact_rank <= rank(*system) + 9


def test_relu_is_marked_as_a_bound_and_lossy_steps_have_no_gradient():
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 2)
    )
    _, rows = rows_of(model, 1, 8, 8)
    assert (rows["0"].note, rows["0"].upper_bound) == (RELU, True)
    pool = rows["2"]
    assert (pool.naive_index, pool.rank.exact_index, pool.rank.gradient_constraints) == (
        27 - 108, 27 - 108, 0,
    )  # fmt: skip
    assert "max pooling" in pool.note
    assert not rows["4"].upper_bound
