from __future__ import annotations

import pytest

from gradaudit.chain import chain_of
from gradaudit.errors import InputError
from gradaudit.models import cnn6, lenet, resnet18, vgg_small
from gradaudit.rank.architecture import Architecture
from gradaudit.rank.describe import architecture_of
from gradaudit.rank.variants import change, usual_changes
from gradaudit.theory import layer_rank


def described(model, *shape: int) -> Architecture:
    return architecture_of(chain_of(model.eval(), shape))


def test_fewer_channels_are_the_network_built_with_them():
    channels = (12, 20, 36, 36, 64, 128)
    changed = change(described(cnn6(), 3, 32, 32), channels={"conv2": 20})
    assert changed == described(cnn6(channels=channels), 3, 32, 32)


def test_a_stride_makes_what_follows_smaller():
    changed = change(described(lenet(), 1, 28, 28), strides={"conv3": 2})
    assert [layer.output_shape for layer in changed.layers()] == [
        (12, 14, 14), (12, 7, 7), (12, 4, 4), (1,),
    ]  # fmt: skip
    assert list(changed.layers())[-1].sizes.unknowns == 12 * 16


@pytest.mark.parametrize("block", range(1, 9))
def test_a_block_without_its_skip_is_the_network_built_without(block):
    whole = described(resnet18(width=4), 3, 32, 32)
    changed = change(whole, without_skip={f"block{block}"})
    assert changed == described(resnet18(width=4, without_skip=block), 3, 32, 32)


def test_pooling_keeps_its_proportion_and_a_mean_over_the_image_its_pixel():
    network = change(described(vgg_small(), 3, 32, 32), strides={"conv1_1": 2})
    assert list(network.layers())[-2].sizes.unknowns == 128 * 2 * 2
    wide = change(described(resnet18(width=4), 3, 32, 32), strides={"conv1": 2})
    assert wide.parts[-2].output_shape == (32, 1, 1)


def test_usual_changes_fit_together_and_are_on_the_edge_of_a_deficit():
    network = described(cnn6(), 3, 32, 32)
    changes = dict(usual_changes(network))
    assert "conv2 with 22 channels instead of 36" in changes
    at, above = (
        next(
            layer.sizes
            for layer in change(network, channels={"conv2": width}).layers()
            if layer.name == "conv2"
        )
        for width in (22, 23)
    )
    assert layer_rank(at).deficit > 0 == layer_rank(above).deficit
    assert all(architecture.parts[-1].output_shape == (1,) for architecture in changes.values())
    residual = dict(usual_changes(described(resnet18(width=4), 3, 32, 32)))
    assert sum("skip connection" in title for title in residual) == 8
    # An identity cannot be added to an image of another size.
    assert "block1.conv1 with stride 2 instead of 1" not in residual
    assert "conv1 with stride 2 instead of 1" in residual


@pytest.mark.parametrize(
    "wrong",
    [
        {"channels": {"conv9": 3}},
        {"strides": {"fc": 2}},
        {"strides": {"conv1": 0}},
        {"channels": {"conv1": 0}},
        {"without_skip": ["block1"]},
    ],
)
def test_changes_that_cannot_be_made(wrong):
    with pytest.raises(InputError):
        change(described(lenet(), 1, 28, 28), **wrong)
