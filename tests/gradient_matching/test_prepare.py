from __future__ import annotations

import pytest
import torch
from torch import nn

from gradaudit.clients import FedSGD
from gradaudit.errors import InputError
from gradaudit.gradient_matching import (
    Knowledge,
    UnsuitedError,
    is_piecewise_linear,
    make_target,
)
from gradaudit.preprocessing import Preprocessing
from gradaudit.update import Update
from gradient_matching.material import SHAPE, convolutional, fully_connected, sample


def test_candidates_gradients_are_those_of_autograd():
    case = sample(convolutional(), (2, 1, 0))
    other = torch.rand(3, *SHAPE, generator=torch.Generator().manual_seed(3)).double()
    found = case.target.gradients(
        torch.stack([case.inputs, other]), torch.stack([case.labels, case.labels])
    )
    for name, parameter in case.model.named_parameters():
        for place, inputs in enumerate((case.inputs, other)):
            loss = nn.functional.cross_entropy(case.model(inputs), case.labels)
            (expected,) = torch.autograd.grad(loss, parameter)
            assert torch.allclose(found[name][place], expected, atol=1e-14)
    residuals = case.target.residuals(
        torch.stack([case.inputs, other]), torch.stack([case.labels, case.labels])
    )
    assert residuals[0] < 1e-14 < 0.01 < residuals[1]


@pytest.mark.parametrize("rate", [0.1, None])
def test_a_difference_of_weights_is_turned_into_the_gradient(rate):
    model = convolutional()
    gradient = sample(model).update.gradient
    delta = {name: -0.1 * g for name, g in gradient.items()}
    update = Update(dict(model.state_dict()), delta=delta, preprocessing=Preprocessing(SHAPE))
    update = sample(model, observe="delta", learning_rate=0.1).update if rate else update
    target = make_target(model, update, "cross_entropy", Knowledge())
    assert target.scale_known == (rate is not None)
    factor = 1.0 if rate else 0.1
    for name, g in gradient.items():
        assert torch.allclose(target.gradient[name], factor * g, atol=1e-13)


def test_pixels_have_a_box_after_normalisation():
    model = convolutional()
    known = Preprocessing(SHAPE, (0.5,), (0.25,))
    update, _ = FedSGD(model).update(torch.zeros(1, *SHAPE), [0], known)
    low, high = make_target(model, update, "cross_entropy", Knowledge()).box
    assert low.shape == SHAPE
    assert bool((low == -2).all())
    assert bool((high == 2).all())


@pytest.mark.parametrize(
    ("activation", "expected"),
    [(nn.Sigmoid, False), (nn.ReLU, True), (nn.LeakyReLU, True), (nn.GELU, False)],
)
def test_curvature_is_noticed(activation, expected):
    assert is_piecewise_linear(sample(convolutional(activation)).target) is expected


class Rounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(36, 4)

    def forward(self, x):
        return self.fc(x.flatten(1).round())


class Deciding(Rounded):
    def forward(self, x):
        return self.fc(x.flatten(1) if float(x.detach().sum()) > 0 else -x.flatten(1))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(nn.Flatten(), nn.BatchNorm1d(36), nn.Linear(36, 4)), "'1' is a BatchNorm"),
        (nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 4)), "'1' is a dropout"),
        (Rounded(), "does not change with its input"),
        (Deciding(), "cannot be differentiated"),
    ],
)
def test_networks_that_cannot_be_matched(model, words):
    update, _ = FedSGD(model).update(torch.rand(3, *SHAPE), [0, 1, 2], Preprocessing(SHAPE))
    with pytest.raises(UnsuitedError, match=words):
        make_target(model.train(), update, "cross_entropy", Knowledge())


def test_norms_in_evaluation_mode_are_no_obstacle():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(36), nn.Linear(36, 4)).eval()
    assert sample(model).target.outputs == 4


def test_the_input_shape_must_be_known():
    model = convolutional()
    update, _ = FedSGD(model).update(torch.rand(1, *SHAPE), [0])
    with pytest.raises(InputError, match="input shape"):
        make_target(model, update, "cross_entropy", Knowledge())
    target = make_target(model, update, "cross_entropy", Knowledge(input_shape=SHAPE))
    assert target.box is None
    with pytest.raises(InputError, match="does not take inputs"):
        make_target(model, update, "cross_entropy", Knowledge(input_shape=(1, 5, 5)))


def test_a_zero_update_matches_everything_and_is_refused():
    model = fully_connected()
    zero = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    update = Update(dict(model.state_dict()), gradient=zero)
    with pytest.raises(UnsuitedError, match="zero in every entry"):
        make_target(model, update, "cross_entropy", Knowledge())
