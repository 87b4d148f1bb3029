"""The convolutional networks: shapes of the papers, randomness of the caller."""

import math

import pytest
import torch
from torch import nn

from gradaudit.errors import InputError
from gradaudit.models import cnn6, cnn6_d, lenet, parse_model, resnet18, vgg_small

FAMILIES = (lenet, cnn6, cnn6_d, vgg_small, resnet18)


def shapes(network: nn.Module, *input_shape: int) -> list[tuple[int, ...]]:
    """Output shape of every layer with weights."""
    found: list[tuple[int, ...]] = []
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(lambda _, __, y: found.append(tuple(y.shape[1:])))
    network.eval()(torch.zeros(1, *input_shape))
    return found


def test_lenet_at_both_sizes_of_the_papers():
    assert shapes(lenet(), 1, 28, 28) == [(12, 14, 14), (12, 7, 7), (12, 7, 7), (1,)]
    colour = lenet((3, 32, 32), num_classes=100, bias=True)
    assert shapes(colour, 3, 32, 32) == [(12, 16, 16), (12, 8, 8), (12, 8, 8), (100,)]
    assert colour.fc.weight.shape == (100, 768)
    assert isinstance(lenet().sigmoid1, nn.Sigmoid)


def test_cnn6_and_its_narrow_variant():
    expected = [(12, 17, 17), (36, 9, 9), (36, 9, 9), (36, 9, 9), (64, 5, 5), (128, 5, 5), (1,)]
    assert shapes(cnn6(), 3, 32, 32) == expected
    expected[1] = (20, 9, 9)
    assert shapes(cnn6_d(), 3, 32, 32) == expected
    network = cnn6()
    assert network.leaky_relu1.negative_slope == 0.2
    assert not any(name.endswith("bias") for name in network.state_dict())


@pytest.mark.parametrize("halving", ["max", "average", "stride"])
@pytest.mark.parametrize("size", [8, 32, 45])
def test_vgg_halves_in_every_stage(halving, size):
    network = vgg_small((3, size, size), halving=halving, widths=(4, 5, 6), hidden=7)
    strided = halving == "stride"
    sides = [size]
    for _ in range(3):
        sides.append(math.ceil(sides[-1] / 2) if strided else sides[-1] // 2)
    after = [sides[i + 1 if strided else i] for i in range(3)]
    assert shapes(network, 3, size, size) == [
        (4, sides[0], sides[0]), (4, after[0], after[0]),
        (5, sides[1], sides[1]), (5, after[1], after[1]),
        (6, sides[2], sides[2]), (6, after[2], after[2]), (7,), (10,),
    ]  # fmt: skip


def test_resnet18_has_eighteen_layers_on_the_long_way_and_torchvisions_shapes():
    network = resnet18()
    weights = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    shortcuts = [m for m in weights if isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1)]
    assert (len(weights) - len(shortcuts), len(shortcuts)) == (18, 3)
    # 11,173,962 is the published size of this network for CIFAR-10, with a bias in fc alone.
    assert sum(p.numel() for p in network.parameters()) == 11_173_962 - 10
    assert shapes(network, 3, 32, 32)[-1] == (10,)


def test_a_missing_skip_is_missing_and_nothing_else_is():
    x = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    for block in range(1, 9):
        whole = resnet18((3, 16, 16), width=4, normalisation="none", activation="tanh")
        variant = resnet18(
            (3, 16, 16), width=4, normalisation="none", activation="tanh", without_skip=block
        )
        removed = set(whole.state_dict()) - set(variant.state_dict())
        projection = f"block{block}.shortcut.0.weight"
        assert removed == ({projection} if block in (3, 5, 7) else set())
        variant.load_state_dict({k: v for k, v in whole.state_dict().items() if k not in removed})
        for number in range(1, 9):
            part, other = (
                whole.get_submodule(f"block{number}"),
                variant.get_submodule(f"block{number}"),
            )
            y = torch.randn(
                2, part.conv1.in_channels, 8, 8, generator=torch.Generator().manual_seed(number)
            )
            direct = part.act2(part.conv2(part.act1(part.conv1(y))))
            assert torch.equal(other(y), direct if number == block else part(y))
        assert not torch.equal(whole(x), variant(x))


@pytest.mark.parametrize("family", FAMILIES)
def test_randomness_is_the_callers(family):
    before = torch.random.get_rng_state()
    one, same = family(seed=3), family(generator=torch.Generator().manual_seed(3))
    other = family(seed=4)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    first = next(one.parameters())
    assert not torch.equal(first, next(other.parameters()))


def test_convolutions_start_as_torch_starts_them():
    ours = lenet(seed=7, bias=True).conv1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        theirs = nn.Conv2d(1, 12, 5)
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)


def test_uniform_weights_are_those_of_dlg():
    weight = lenet((3, 32, 32), num_classes=10, init="uniform").fc.weight.detach()
    assert float(weight.abs().max()) <= 0.5
    # 7,680 draws: the deviation from 1/12 is below 5 % but for a chance of 1e-6.
    assert float(weight.var()) == pytest.approx(1 / 12, rel=0.05)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_single_logit_in_both_types(family, dtype):
    network = family(num_classes=1, dtype=dtype, activation="elu").eval()
    shape = (1, 28, 28) if family is lenet else (3, 32, 32)
    x = torch.zeros(2, *shape, dtype=getattr(torch, dtype))
    assert network(x).shape == (2, 1)
    assert {p.dtype for p in network.parameters()} == {x.dtype}


@pytest.mark.parametrize(
    "text",
    [
        "lenet?activation=leaky_relu&num_classes=10&bias=yes&init=uniform",
        "cnn6?input_shape=1,20,24",
        "cnn6_d?dtype=float64",
        "vgg_small?hidden=9&halving=stride",
        "resnet18?width=4&without_skip=3,5&normalisation=none",
    ],
)
def test_networks_by_text(text):
    name, _, options = text.partition("?")
    arguments: dict[str, object] = {
        "lenet": {"activation": "leaky_relu", "num_classes": 10, "bias": True, "init": "uniform"},
        "cnn6": {"input_shape": (1, 20, 24)},
        "cnn6_d": {"dtype": torch.float64},
        "vgg_small": {"hidden": 9, "halving": "stride"},
        "resnet18": {"width": 4, "without_skip": (3, 5), "normalisation": "none"},
    }[name]
    family = next(f for f in FAMILIES if f.__name__ == name)
    ours, same = parse_model(text, seed=2), family(**arguments, seed=2)
    assert str(ours) == str(same)
    state = same.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in ours.state_dict().items())
    assert options


@pytest.mark.parametrize(
    "text",
    ["lenet?without_skip=3", "cnn6?input_shape=3,x,2", "cnn6?input_shape=32,32", "resnet18?width=0",
     "resnet18?without_skip=9", "vgg_small?halving=min", "vgg_small?input_shape=3,4,4",
     "lenet?num_classes=0", "vgg_small?hidden=0", "lenet?activation=swish"],
)  # fmt: skip
def test_bad_text(text):
    with pytest.raises(InputError):
        parse_model(text)
