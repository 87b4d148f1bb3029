from __future__ import annotations

from torch import nn

from gradaudit.chain import chain_of
from gradaudit.models import cnn6, resnet18, vgg_small
from gradaudit.rank.architecture import Block, Layer, Lossy
from gradaudit.rank.describe import architecture_of


def test_sizes_are_those_of_the_modules():
    network = cnn6()
    architecture = architecture_of(chain_of(network, (3, 32, 32)))
    layers = list(architecture.layers())
    assert [layer.name for layer in layers] == [*(f"conv{i}" for i in range(1, 7)), "fc"]
    for layer in layers:
        module = network.get_submodule(layer.name)
        assert layer.sizes.parameters == module.weight.numel()
        assert layer.dense == isinstance(module, nn.Linear)
        assert layer.activation == ("" if layer.dense else "leaky_relu")
    assert [layer.output_shape for layer in layers][-2:] == [(128, 5, 5), (1,)]


def test_pooling_behind_an_activation_is_lossy_and_before_it_belongs_to_the_layer():
    behind = architecture_of(chain_of(vgg_small(halving="average"), (3, 32, 32)))
    lossy = [part for part in behind.parts if isinstance(part, Lossy)]
    assert [(part.name, part.output_shape) for part in lossy] == [
        ("pool1", (32, 16, 16)), ("pool2", (64, 8, 8)), ("pool3", (128, 4, 4)),
    ]  # fmt: skip
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.AvgPool2d(2), nn.Tanh())
    (layer,) = architecture_of(chain_of(network, (1, 10, 10))).parts
    assert isinstance(layer, Layer)
    assert (layer.pooled, layer.output_shape, layer.activation) == ((4, 4), (4, 4, 4), "tanh")


def test_blocks_have_their_modules_names_and_the_activation_behind_the_sum():
    architecture = architecture_of(chain_of(resnet18(width=4, without_skip=4).eval(), (3, 32, 32)))
    blocks = architecture.blocks()
    assert [block.name for block in blocks] == [f"block{i}" for i in (1, 2, 3, 5, 6, 7, 8)]
    assert [len(block.shortcut) for block in blocks] == [0, 0, 1, 1, 0, 1, 0]
    assert all(layer.activation == "relu" for block in blocks for layer in block.body)
    plain = [part.name for part in architecture.parts if isinstance(part, Layer)]
    assert plain == ["conv1", "block4.conv1", "block4.conv2", "fc"]
    assert not any(isinstance(part, Block) and part.name == "block4" for part in architecture.parts)
