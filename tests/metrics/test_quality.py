import sys
import types

import numpy as np
import pytest
import torch
from skimage import metrics as reference

from gradaudit.errors import InputError, MissingExtraError
from gradaudit.metrics import MAX_PSNR, psnr, ssim
from gradaudit.metrics.quality import lpips


@pytest.fixture
def images():
    generator = np.random.default_rng(0)
    truth = generator.random((16, 12, 3))
    return truth + generator.normal(0, 0.05, truth.shape), truth


@pytest.mark.parametrize("data_range", [1.0, 255.0, 0.25])
def test_psnr_is_scikit_images(images, data_range):
    expected = reference.peak_signal_noise_ratio(images[1], images[0], data_range=data_range)
    assert psnr(*images, data_range) == pytest.approx(expected, rel=1e-12)


def test_psnr_is_finite_whatever_comes():
    zeros = np.zeros(4)
    assert psnr(zeros, zeros, 1.0) == MAX_PSNR == pytest.approx(313.07, abs=0.01)
    assert psnr(zeros + 1e-300, zeros, 1.0) == MAX_PSNR
    assert psnr(zeros + 1e-15, zeros, 1.0) == pytest.approx(300)
    assert -4000 < psnr(zeros + 1e200, zeros, 1e-200) < 0


def test_ssim_is_scikit_images(images):
    expected = reference.structural_similarity(
        images[1], images[0], data_range=1.0, channel_axis=-1
    )
    assert ssim(*images) == pytest.approx(expected, rel=1e-12)
    assert ssim(images[1], images[1]) == pytest.approx(1)


@pytest.fixture
def fake_torchmetrics(monkeypatch, tmp_path):
    """Stands for torchmetrics, which the tests do not need to be installed."""
    functional = types.ModuleType("torchmetrics.functional.image")

    def distance(a, b, net_type, normalize):
        assert a.shape == b.shape == (1, 3, *a.shape[2:])
        assert normalize
        assert 0 <= float(a.min()) <= float(a.max()) <= 1
        if min(a.shape[2:]) < 8:
            raise RuntimeError("output size is too small\nfor a pooling layer")
        return (a - b).abs().mean()

    functional.learned_perceptual_image_patch_similarity = distance
    for name in ("torchmetrics", "torchmetrics.functional", "torchvision"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "torchmetrics.functional.image", functional)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "alexnet-owt-7be5be79.pth").touch()


def test_lpips_clips_and_repeats_grey(fake_torchmetrics):
    black, over = np.zeros((8, 8, 1)), np.full((8, 8, 1), 7.0)
    assert lpips(black, over) == 1.0
    assert lpips(black, black) == 0.0


def test_lpips_says_what_is_missing(fake_torchmetrics, monkeypatch):
    image = np.zeros((8, 8, 3))
    with pytest.raises(InputError, match="nothing is downloaded"):
        lpips(image, image, "vgg")
    with pytest.raises(InputError, match="resnet"):
        lpips(image, image, "resnet")
    with pytest.raises(InputError, match="32 x 32"):
        lpips(image[:4], image[:4])
    monkeypatch.setitem(sys.modules, "torchmetrics.functional.image", None)
    with pytest.raises(MissingExtraError, match=r"gradaudit\[lpips\]"):
        lpips(image, image)
