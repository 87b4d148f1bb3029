from __future__ import annotations

import torch
from torch import nn

from gradaudit.clients import FedSGD
from gradaudit.models.loaded import load_model
from gradaudit.models.losses import get_loss
from gradaudit.rgap.gradient_map import GradientMap
from gradaudit.rgap.observed import observe
from gradaudit.rgap.refine import refine
from rgap.networks import drawn, uniform


def map_of(*, dtype=None, **client):
    model = drawn(nn.Sequential(nn.Linear(12, 20), nn.Sigmoid(), nn.Linear(20, 3)), 0, 1.5)
    images, labels = uniform(1, 12), torch.tensor([2])
    update, _ = FedSGD(model, gradient_dtype=dtype, **client).update(images, labels)
    loaded = load_model(model, update)
    seen = observe([update], [loaded])
    return GradientMap(loaded, get_loss("cross_entropy"), labels, seen), images


def test_the_map_is_the_clients_gradient():
    of, images = map_of()
    for name, gradient in of.gradient(images).items():
        assert torch.allclose(gradient, of.observed[name], rtol=1e-12)
    assert float(of.mismatch(images).abs().max()) < 1
    # Without a learning rate, the multiple that fits.
    unknown, _ = map_of(observe="delta", learning_rate=0.25)
    unknown._scale_known = False
    shifted = {name: 3 * g for name, g in unknown.observed.items()}
    unknown.observed = shifted
    for name, gradient in unknown.gradient(images).items():
        assert torch.allclose(gradient, shifted[name], rtol=1e-6, atol=1e-12)


def test_an_error_shrinks_to_what_rounding_leaves():
    of, images = map_of(dtype="float32")
    start = images + 1e-3 * (uniform(1, 12, seed=6) - 0.5)
    found = refine(of, start)
    assert found.steps >= 1
    assert found.mismatch < 1
    error = float((found.inputs - images).square().mean().sqrt())
    assert error < 1e-2 * float((start - images).square().mean().sqrt())


def test_nothing_is_made_worse():
    of, images = map_of()
    asked = refine(of, images + 0.1, stop=lambda: True)
    assert asked.steps == 0
    assert torch.equal(asked.inputs, images + 0.1)
