import socket

import numpy as np
import pytest
import torch

from gradaudit.data import patches
from gradaudit.data.patches import MIN_CONTRAST, PHOTOS, TEST_PHOTOS, _photo
from gradaudit.errors import InputError, MissingExtraError


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*arguments, **keywords):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    _photo.cache_clear()


def test_all_photos_are_read_without_the_network(no_network):
    source = patches(16)
    batch = source.batch(len(PHOTOS), labels="distinct")
    assert sorted(batch.labels.tolist()) == list(range(len(PHOTOS)))
    assert source.classes == len(PHOTOS) == len(source.preprocessing.class_names)


def test_patches_are_pieces_of_their_photo():
    source = patches(12)
    batch = source.batch(5, seed=3)
    images = source.preprocessing.to_images(batch.inputs.numpy())
    for image, label in zip(images, batch.labels.tolist(), strict=True):
        whole = np.rint(image * 255).astype(np.uint8)
        np.testing.assert_allclose(image * 255, whole, atol=1e-9)
        windows = np.lib.stride_tricks.sliding_window_view(_photo(PHOTOS[label], 3), (12, 12, 3))
        candidates = windows[(windows[..., 0, 0, :].squeeze() == whole[0, 0]).all(axis=-1)]
        assert any((w.squeeze() == whole).all() for w in candidates)


def test_normalisation_is_that_of_the_training_photos():
    train = np.concatenate(
        [_photo(p, 3).reshape(-1, 3) / 255 for p in PHOTOS if p[2].split(".")[0] not in TEST_PHOTOS]
    )
    for split in ("train", "test"):
        preprocessing = patches(8, split=split).preprocessing
        np.testing.assert_allclose(preprocessing.mean, train.mean(axis=0), rtol=1e-9)
        np.testing.assert_allclose(preprocessing.std, train.std(axis=0), rtol=1e-6)
    unit = patches(8, normalise=False).batch(20)
    assert 0 <= float(unit.inputs.min()) < float(unit.inputs.max()) <= 1
    assert unit.preprocessing.mean == ()


def test_the_split_is_by_photo():
    names = patches(8).preprocessing.class_names
    seen = {}
    for split in ("train", "test", "all"):
        labels = patches(8, split=split).batch(200, seed=1).labels.tolist()
        seen[split] = {names[label] for label in labels}
    assert seen["test"] == set(TEST_PHOTOS)
    assert seen["train"] == set(names) - set(TEST_PHOTOS)
    assert seen["all"] == set(names)


@pytest.mark.parametrize("arguments", [{}, {"contrast": 0.1}])
def test_patches_have_contrast(arguments):
    hubble = patches(4, normalise="unit", **arguments).batch(150, label=3, seed=2).inputs
    # Colour alone is no contrast: what counts is the change within a channel.
    within = hubble.flatten(2).std(dim=2, correction=0).amax(dim=1)
    assert float(within.min()) >= arguments.get("contrast", MIN_CONTRAST)


def test_more_contrast_than_there_is():
    with pytest.raises(InputError, match="less contrast"):
        patches(8, contrast=0.5).batch(1)


def test_no_patch_comes_twice():
    whole = patches(300, channels=1).batch(40, label=1).inputs
    assert whole.shape == (40, 1, 300, 300)
    assert len(torch.unique(whole.flatten(1), dim=0)) == 40
    with pytest.raises(InputError, match="different patches"):
        patches(300, channels=1).batch(200, label=1)


@pytest.mark.parametrize(
    "arguments",
    [{"size": 1}, {"size": 301}, {"split": "x"}, {"channels": 2}, {"normalise": "z"},
     {"contrast": -0.1}, {"contrast": 0.6}, {"contrast": float("nan")}],
)  # fmt: skip
def test_bad_arguments(arguments):
    with pytest.raises(InputError):
        patches(**arguments)


def test_bad_batches():
    with pytest.raises(InputError, match="one of"):
        patches(8, split="test").batch(1, label=0)
    with pytest.raises(InputError, match="3 photos"):
        patches(8, split="test").batch(4, labels="distinct")


def test_missing_package_names_the_extra(monkeypatch):
    _photo.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "skimage", None)
    with pytest.raises(MissingExtraError, match=r"gradaudit\[data\]"):
        patches(8)
