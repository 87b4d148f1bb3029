import math

import pytest
import torch
from scipy import stats
from torch import nn

from gradaudit.errors import InputError
from gradaudit.models import ACTIVATIONS, mlp


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_default_initialisation_is_pytorchs_bit_for_bit(dtype):
    ours = mlp(7, [5, 4], 3, seed=11, dtype=dtype)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        theirs = [nn.Linear(n, m, dtype=dtype) for n, m in ((7, 5), (5, 4), (4, 3))]
    for name, layer in zip(("fc1", "fc2", "fc3"), theirs, strict=True):
        assert torch.equal(getattr(ours, name).weight, layer.weight)
        assert torch.equal(getattr(ours, name).bias, layer.bias)


def test_default_initialisation_is_uniform_with_the_documented_bound():
    layer = mlp(400, [], 500, seed=3, dtype="float64").fc1
    bound = 1 / math.sqrt(400)
    for tensor in (layer.weight, layer.bias):
        sample = tensor.detach().flatten().numpy()
        assert abs(sample).max() <= bound
        assert stats.kstest(sample, stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("init", "init_std", "weight_std", "bias_std"),
    [
        ("kaiming", None, math.sqrt(2 / 300), 0),
        ("xavier", None, math.sqrt(2 / 700), 0),
        ("normal", None, 1 / math.sqrt(300), 1 / math.sqrt(300)),
        ("normal", 0.5, 0.5, 0.5),
    ],
)
def test_other_initialisations_have_the_documented_spread(init, init_std, weight_std, bias_std):
    layer = mlp(300, [], 400, init=init, init_std=init_std, seed=2).fc1.requires_grad_(False)
    assert float(layer.weight.std()) == pytest.approx(weight_std, rel=0.02)
    assert float(layer.bias.std()) == pytest.approx(bias_std, rel=0.15)


def test_randomness_is_the_callers():
    before = torch.random.get_rng_state()
    first = mlp(4, [3], 2, seed=1).fc1.weight
    assert torch.equal(first, mlp(4, [3], 2, generator=torch.Generator().manual_seed(1)).fc1.weight)
    assert not torch.equal(first, mlp(4, [3], 2, seed=2).fc1.weight)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_names_and_forward(activation):
    network = mlp(12, [5, 4], 3, activation=activation, bias=False)
    assert [name for name, _ in network.named_children()] == [
        "flatten", "fc1", f"{activation}1", "fc2", f"{activation}2", "fc3",
    ]  # fmt: skip
    assert list(network.state_dict()) == ["fc1.weight", "fc2.weight", "fc3.weight"]
    x = torch.randn(2, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    f = ACTIVATIONS[activation]()
    w1, w2, w3 = network.state_dict().values()
    torch.testing.assert_close(network(x), f(f(x.flatten(1) @ w1.T) @ w2.T) @ w3.T)


@pytest.mark.parametrize(
    "wrong",
    [
        {"inputs": 0},
        {"widths": [3, -1]},
        {"widths": [2.5]},
        {"outputs": 2**33},
        {"activation": "swish"},
        {"init": "zeros"},
        {"init_std": 0.1},
        {"init": "normal", "init_std": -1.0},
        {"dtype": torch.float16},
    ],
)
@pytest.mark.wrong_types
def test_bad_arguments(wrong):
    arguments = {"inputs": 4, "widths": [3], "outputs": 2} | wrong
    with pytest.raises(InputError):
        mlp(**arguments)
