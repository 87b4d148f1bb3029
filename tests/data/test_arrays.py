import os
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from gradaudit.data import digits, npz_file, torchvision_set
from gradaudit.errors import InputError, MissingExtraError

DATA = Path(os.environ.get("GRADAUDIT_DATA", "/nonexistent"))


def test_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    source = digits()
    batch = source.batch(1797, seed=1)
    images = np.rint(source.preprocessing.to_images(batch.inputs.numpy())[..., 0] * 16)
    reference = load_digits()
    rows = {
        (tuple(image.ravel()), y) for image, y in zip(images, batch.labels.tolist(), strict=True)
    }
    assert rows == {
        (tuple(i.ravel()), y) for i, y in zip(reference.images, reference.target, strict=True)
    }
    assert batch.inputs.shape == (1797, 1, 8, 8)
    assert float(batch.inputs.mean()) == pytest.approx(0, abs=1e-9)
    assert float(batch.inputs.std(correction=0)) == pytest.approx(1)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(6, 4, 5), (6, 4, 5, 3)])
def test_npz_images_come_back(tmp_path, dtype, shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape)
    images = pixels.astype(np.uint8) if dtype == np.uint8 else (pixels / 255).astype(dtype)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(6))
    source = npz_file(tmp_path / "a.npz")
    batch = source.batch(6, seed=2)
    back = source.preprocessing.to_images(batch.inputs.numpy())
    expected = pixels.reshape(6, 4, 5, -1)[batch.labels.numpy()] / 255
    np.testing.assert_allclose(back, expected, atol=1e-7)
    assert source.classes == 6


@pytest.mark.parametrize("normalise", ["standard", "unit"])
def test_npz_features_come_back_in_their_units(tmp_path, normalise):
    features = np.random.default_rng(0).normal(5, 3, (8, 3))
    features[:, 1] = 0.1
    np.savez_compressed(tmp_path / "a.npz", features=features, labels=np.arange(8) % 2)
    source = npz_file(tmp_path / "a.npz", normalise=normalise)
    batch = source.batch(8)
    rows = source.preprocessing.to_rows(batch.inputs.numpy())
    back = np.array([[row[f"feature {i}"] for i in range(3)] for row in rows])
    order = np.lexsort(back.T), np.lexsort(features.T)
    np.testing.assert_allclose(back[order[0]], features[order[1]], atol=1e-12)
    if normalise == "standard":
        torch.testing.assert_close(
            batch.inputs[:, ::2].std(dim=0, correction=0), torch.ones(2, dtype=torch.float64)
        )
        assert float(batch.inputs[:, 1].abs().max()) < 1e-12


@pytest.mark.parametrize(
    "arrays",
    [
        {"images": np.zeros((2, 3, 3), np.uint8)},
        {"labels": np.zeros(2, int)},
        {"images": np.zeros((2, 3, 3)), "features": np.zeros((2, 2)), "labels": np.zeros(2, int)},
        {"images": np.zeros((2, 3, 3), np.uint8), "labels": np.zeros(3, int)},
        {"images": np.zeros((2, 3, 3), np.uint8), "labels": np.zeros(2)},
        {"images": np.zeros((2, 3, 3), np.uint8), "labels": np.array([-1, 0])},
        {"images": np.zeros((2, 3, 3), np.uint8), "labels": np.array([0, 10**9])},
        {"images": np.full((2, 3, 3), 2.0), "labels": np.zeros(2, int)},
        {"images": np.full((2, 3, 3), np.nan), "labels": np.zeros(2, int)},
        {"images": np.full((2, 3, 3), "x"), "labels": np.zeros(2, int)},
        {"images": np.zeros((2, 3)), "labels": np.zeros(2, int)},
        {"images": np.zeros((2, 3, 3, 9)), "labels": np.zeros(2, int)},
        {"images": np.zeros((0, 3, 3)), "labels": np.zeros(0, int)},
        {"features": np.zeros((2, 3, 3)), "labels": np.zeros(2, int)},
        {"features": np.full((2, 3), np.inf), "labels": np.zeros(2, int)},
        {"features": np.full((2, 3), 1e308) * [[1], [-1]], "labels": np.zeros(2, int)},
        {"features": np.zeros((2, 3), complex), "labels": np.zeros(2, int)},
        {"features": np.array(1.0), "labels": np.zeros(2, int)},
        {"features": np.array([[{}], [{}]]), "labels": np.zeros(2, int)},
    ],
)
@pytest.mark.wrong_types
def test_bad_npz_arrays_are_one_line(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError) as caught:
        npz_file(tmp_path / "a.npz")
    assert "\n" not in str(caught.value)


def test_bad_npz_files(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, images=np.zeros((2, 3, 3), np.uint8), labels=np.zeros(2, int))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        npz_file(path)
    header = b"\x93NUMPY\x01\x00v\x00" + (
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", header)
        archive.writestr("labels.npy", header)
    with pytest.raises(InputError, match="bytes of data"):
        npz_file(path)
    with pytest.raises(InputError, match="no such file"):
        npz_file(tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("name", "shape"), [("cifar10_2000", (3, 32, 32)), ("mnist_3000", (1, 28, 28))]
)
def test_real_images(name, shape):
    path = DATA / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"GRADAUDIT_DATA has no {name}.npz")
    source = npz_file(path)
    assert source.classes == 10
    batch = source.batch(10, labels="distinct", seed=1)
    back = source.preprocessing.to_images(batch.inputs.numpy())
    originals = np.load(path)["images"].reshape(-1, *shape[1:], shape[0])
    for image in np.rint(back * 255):
        assert (originals == image).all(axis=(1, 2, 3)).any()


class FakeCIFAR:
    """Stands for a data set of torchvision, which the tests do not need to be installed."""

    classes = ("cat", "dog", "eel")

    def __init__(self, root, train=True, download=False):
        assert download is False
        if root != "here":
            raise RuntimeError("Dataset not found or corrupted.\nYou can use download=True")
        self.offset = 0 if train else 100

    def __len__(self):
        return 9

    def __getitem__(self, i):
        return np.full((4, 4, 3), self.offset + i, np.uint8), i % 2


def test_torchvision_sets(monkeypatch):
    fake = types.ModuleType("torchvision.datasets")
    fake.FakeCIFAR, fake.number = FakeCIFAR, 3
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.datasets", fake)
    source = torchvision_set("FakeCIFAR", root="here", split="test", limit=5, normalise="unit")
    batch = source.batch(5)
    assert sorted(torch.round(batch.inputs[:, 0, 0, 0] * 255).int().tolist()) == list(
        range(100, 105)
    )
    assert source.classes == 3
    with pytest.raises(InputError, match="downloads nothing"):
        torchvision_set("FakeCIFAR", root="elsewhere")
    for unknown in ("number", "CIFAR11"):
        with pytest.raises(InputError, match=unknown):
            torchvision_set(unknown)


def test_missing_torchvision_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    with pytest.raises(MissingExtraError, match=r"gradaudit\[torchvision\]"):
        torchvision_set("CIFAR10")
