from __future__ import annotations

import pytest
import torch

from gradaudit.clients import FedSGD
from gradaudit.models.loaded import load_model
from gradaudit.rgap.observed import observe, perturbed
from rgap.networks import generator, small_cnn, uniform


def seen(images=None, **client):
    model = small_cnn()
    images = uniform(1, 2, 8, 8) if images is None else images
    update, _ = FedSGD(model, **client).update(images, torch.tensor([1]))
    return observe([update], [load_model(model, update)])


def test_a_difference_of_weights_is_the_gradient_with_the_weights_rounding():
    gradient, delta = seen(), seen(observe="delta", learning_rate=0.5)
    for name, rows in gradient.gradients.items():
        assert torch.allclose(delta.gradients[name], rows, atol=1e-12)
        assert (delta.noise[name] > gradient.noise[name]).all()
        error = (delta.gradients[name] - rows)[0].flatten(1).square().mean(1).sqrt()
        assert (error < 3 * delta.noise[name][0]).all()
    assert delta.scale_known


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_noise_is_that_of_the_type_it_was_rounded_to(dtype):
    exact, rounded = seen(), seen(gradient_dtype=dtype)
    for name, rows in exact.gradients.items():
        error = (rounded.gradients[name] - rows)[0].flatten(1).square().mean(1).sqrt()
        assert (error < rounded.noise[name][0]).all()
        assert (rounded.noise[name][0] < 100 * error + 1e-30).all()


def test_fresh_noise_is_as_large_as_it_says():
    before = seen(gradient_dtype="float32")
    after = perturbed(before, generator(7))
    for name, rows in before.gradients.items():
        moved = (after.gradients[name] - rows)[0].flatten(1) / before.noise[name][0][:, None]
        # A mean of n squares of normal numbers is within six standard deviations of one.
        assert abs(float(moved.square().mean()) - 1) < 6 * (2 / moved.numel()) ** 0.5
