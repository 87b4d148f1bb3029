from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gradaudit.chain import Affine
from gradaudit.models.losses import get_loss
from gradaudit.rgap.last_layer import LastLayer, several_records, starts
from gradaudit.rgap.refusal import NotSolvableError
from rgap.networks import generator, uniform


def observed(outputs: int, loss: str, label: int, *, bias: bool = False, inputs=None, seed=0):
    """A last layer's gradient for one input, in float64, and the input."""
    source = generator(seed)
    weight = torch.randn(outputs, 40, generator=source, dtype=torch.float64) * 0.3
    offset = torch.randn(outputs, generator=source, dtype=torch.float64) if bias else None
    x = uniform(1, 40, seed=seed + 1) - 0.3 if inputs is None else inputs
    free = [weight.clone().requires_grad_()]
    if bias:
        free.append(offset.clone().requires_grad_())
    logits = torch.nn.functional.linear(x, *free)
    gradients = torch.autograd.grad(get_loss(loss)(logits, torch.tensor([label])), free)
    layer = Affine(
        "fc", weight, offset, (40,), (outputs,), "fc.weight", "fc.bias" if bias else None
    )
    noise = torch.full((1, outputs), 1e-16, dtype=torch.float64)
    return (
        LastLayer(
            layer,
            gradients[0][None],
            noise,
            gradients[1][None] if bias else None,
            noise if bias else None,
            loss,
            True,
        ),
        x,
    )


@pytest.mark.parametrize(
    ("outputs", "loss"), [(1, "binary_cross_entropy"), (7, "cross_entropy"), (4, "mse")]
)
def test_with_a_bias_any_loss_will_do(outputs, loss):
    label = 0
    last, x = observed(outputs, loss, label, bias=True)
    (found,) = starts(last)
    assert torch.allclose(found.inputs, x, rtol=1e-10)
    assert int(found.label[0]) == (-1 if loss == "mse" else label)
    # A multiple of the gradient gives the same input.
    scaled = replace(
        last,
        gradient=-3 * last.gradient,
        bias_gradient=-3 * last.bias_gradient,
        scale_known=False,
    )
    assert torch.allclose(starts(scaled)[0].inputs, x, rtol=1e-10)


@pytest.mark.parametrize("outputs", [3, 10, 100])
@pytest.mark.parametrize("label", [0, 2])
def test_a_softmax_without_bias(outputs, label):
    last, x = observed(outputs, "cross_entropy", label, seed=outputs)
    (found,) = starts(last)
    assert float((found.inputs - x).norm() / x.norm()) < 1e-11
    assert int(found.label[0]) == label
    k = torch.softmax(x @ last.layer.weight.T, 1)
    k[0, label] -= 1
    assert torch.allclose(found.output_gradient, k, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("outputs", [3, 10, 100])
def test_a_softmax_without_bias_in_single_precision(outputs):
    last, x = observed(outputs, "cross_entropy", 1, seed=outputs)
    rounded = last.gradient.float().double()
    size = rounded.square().mean(2).sqrt()
    last = replace(last, gradient=rounded, noise=1.2e-7 * size)
    (found,) = starts(last)
    error = float((found.inputs - x).norm() / x.norm())
    assert error < 1e-5
    # The predicted error is of the size of the true one.
    assert error < 10 * float(found.error[0, 0] / x.square().mean().sqrt())


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize(("outputs", "loss"), [(1, "binary_cross_entropy"), (2, "cross_entropy")])
def test_a_single_logit_has_up_to_two_margins_and_two_labels(outputs, loss, label):
    last, x = observed(outputs, loss, label)
    found = [start for start in starts(last) if bool(start.valid[0])]
    errors = [float((start.inputs - x).norm() / x.norm()) for start in found]
    best = errors.index(min(errors))
    assert errors[best] < 1e-10
    assert int(found[best].label[0]) == label
    logits = x @ last.layer.weight.T
    k = torch.sigmoid(logits) - label if outputs == 1 else torch.softmax(logits, 1)
    if outputs == 2:
        k[0, label] -= 1
    assert torch.allclose(found[best].output_gradient, k, rtol=1e-9)
    margin = float((logits[0, -1] - (logits[0, 0] if outputs == 2 else 0)) * (2 * label - 1))
    assert len(found) == (4 if margin > 0 else 2)
    # All of them explain the layer's own gradient.
    for start in found:
        again = start.output_gradient[:, :, None] * start.inputs[:, None]
        assert torch.allclose(again, last.gradient, rtol=1e-9, atol=1e-14)


def test_what_cannot_be_begun_with_is_refused():
    last, _ = observed(4, "mse", 1)
    with pytest.raises(NotSolvableError, match="'mse'"):
        starts(last)
    last, _ = observed(1, "binary_cross_entropy", 1)
    with pytest.raises(NotSolvableError, match="learning rate"):
        starts(replace(last, scale_known=False))
    with pytest.raises(NotSolvableError, match="zero in every entry"):
        starts(replace(last, gradient=torch.zeros_like(last.gradient)))
    last, _ = observed(3, "cross_entropy", 1, bias=True)
    with pytest.raises(NotSolvableError, match="was not observed"):
        starts(replace(last, bias_gradient=None, bias_noise=None))


def test_several_records_show_in_the_rank():
    one, _ = observed(5, "cross_entropy", 1)
    other, _ = observed(5, "cross_entropy", 3, inputs=uniform(1, 40, seed=9))
    gradients = torch.cat([one.gradient, one.gradient + other.gradient])
    noise = torch.full((2, 5), 1e-9, dtype=torch.float64)
    assert several_records(gradients, noise).tolist() == [False, True]
    # A single row has rank one whatever it is of.
    assert not several_records(gradients[:, :1], noise[:, :1]).any()
