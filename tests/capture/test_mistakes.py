from __future__ import annotations

import pytest
import torch

from gradaudit.capture.mistakes import (
    check_after,
    check_changed,
    check_gradient,
    check_not_weights,
)
from gradaudit.errors import InputError


def test_weights_taken_for_a_gradient(weights, after, gradient):
    with pytest.raises(InputError, match="contains='weights_after'"):
        check_gradient("path", after, weights)
    check_gradient("path", gradient, weights)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3])
def test_gradients_of_any_size_pass(weights, gradient, scale):
    check_not_weights("path", {k: t * scale for k, t in gradient.items()}, weights)


def test_half_precision_and_partial_updates(weights, after):
    half = {"fc2.weight": after["fc2.weight"].bfloat16()}
    with pytest.raises(InputError, match="of the weights"):
        check_not_weights("path", half, weights)


def test_large_values_do_not_overflow(weights):
    huge = {k: (t * 3e4).half().clamp(-6e4, 6e4) for k, t in weights.items()}
    with pytest.raises(InputError, match="within 0 of"):
        check_not_weights("path", huge, huge)


def test_zero_weights_say_nothing(gradient):
    zero = {k: torch.zeros_like(t) for k, t in gradient.items()}
    check_not_weights("path", gradient, zero)
    check_not_weights("path", zero, zero)
    check_after("path", gradient, zero)


def test_buffers_among_gradients(weights, gradient):
    with pytest.raises(InputError, match=r"'bn\.running_var' among gradients"):
        check_gradient("path", gradient | {"bn.running_var": torch.ones(2)}, weights)


def test_gradient_taken_for_weights_after(weights, gradient, after):
    check_after("path", after, weights)
    with pytest.raises(InputError, match="contains='gradient'"):
        check_after("path", gradient, weights)


def test_no_change():
    check_changed("path", {"a": torch.zeros(2), "b": torch.tensor([0.0, 1e-30])})
    with pytest.raises(InputError, match="no change"):
        check_changed("path", {"a": torch.zeros(2), "b": -torch.zeros(3)})
