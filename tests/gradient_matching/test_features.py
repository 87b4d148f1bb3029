from __future__ import annotations

import pytest
import torch
from torch import nn

from gradaudit.budget import Budget, Control
from gradaudit.errors import InputError
from gradaudit.gradient_matching import invert_features
from gradaudit.preprocessing import Preprocessing

SHAPE = (1, 8, 8)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 30), nn.Linear(30, 3)
    ).double()


def images() -> torch.Tensor:
    ramp = torch.linspace(0, 1, 8).double()
    return torch.stack([ramp.expand(8, 8), ramp.flip(0).expand(8, 8).T])[:, None]


@pytest.mark.parametrize("up_to_scale", [False, True])
def test_each_image_comes_from_its_own_features(up_to_scale):
    model = network()
    features = model[:3](images()).detach() * (5.0 if up_to_scale else 1.0)
    found = invert_features(
        model,
        "3",
        features,
        SHAPE,
        preprocessing=Preprocessing(SHAPE),
        up_to_scale=up_to_scale,
        steps=300,
    )
    assert bool((found.residuals < 0.05).all())
    errors = (found.records[:, None] - images()[None]).square().flatten(2).mean(2)
    limit = 0.02 if up_to_scale else 2e-3
    assert bool((errors.diagonal() < limit).all())
    assert bool(((found.records >= 0) & (found.records <= 1)).all())
    # Of one image alone, nothing changes but the random start.
    alone = invert_features(model, "3", features[1:], SHAPE, up_to_scale=up_to_scale, steps=400)
    assert (alone.records[0] - images()[1]).square().mean() < limit


def test_the_model_keeps_its_mode_and_has_no_hook_left():
    model = network().train()
    features = model[:3](images()).detach()
    invert_features(model, "3", features, SHAPE, steps=2)
    assert model.training
    assert model(images()).shape == (2, 3)


def test_what_does_not_fit_is_refused():
    model = network()
    with pytest.raises(InputError, match="a module of the model"):
        invert_features(model, "fc", torch.rand(2, 512).double(), SHAPE)
    with pytest.raises(InputError, match="512, as layer '3' is given"):
        invert_features(model, "3", torch.rand(2, 500).double(), SHAPE)


def test_an_interruption_ends_it():
    model = network()
    control = Control(Budget(seconds=60))
    control.interrupt()
    found = invert_features(model, "3", torch.rand(2, 512).double(), SHAPE, control=control)
    assert found.stopped == "interrupted"
    assert found.records.shape == (2, *SHAPE)
