"""What a server sent and received becomes an update: the change, named, without buffers."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr", reason="needs the extra gradaudit[flower]")

import torch
from flwr.app import ArrayRecord
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters
from torch import nn

from flower.material import make_model, trained
from gradaudit import LocalTraining
from gradaudit.errors import InputError
from gradaudit.flower import read_update
from gradaudit.preprocessing import Preprocessing


def ndarrays(model: nn.Module) -> list:
    return [tensor.numpy().copy() for tensor in model.state_dict().values()]


@pytest.fixture
def before() -> nn.Module:
    return make_model()


@pytest.fixture
def after() -> nn.Module:
    return trained(make_model(), 0)


def expected(before, after) -> dict:
    new = after.state_dict()
    return {name: new[name] - tensor for name, tensor in before.state_dict().items()}


def check(update, before, after):
    change = expected(before, after)
    assert update.delta.keys() == change.keys()
    assert all(torch.equal(update.delta[name], tensor) for name, tensor in change.items())


def test_arrays_with_names(before, after):
    sent, received = ArrayRecord(before.state_dict()), ArrayRecord(after.state_dict())
    check(read_update(sent, received), before, after)


def test_arrays_without_names_take_the_models(before, after):
    sent, received = ArrayRecord(ndarrays(before)), ArrayRecord(ndarrays(after))
    check(read_update(sent, received, model=make_model()), before, after)
    with pytest.raises(InputError, match="pass model="):
        read_update(sent, received)


def test_a_reply_without_names_takes_those_sent(before, after):
    update = read_update(ArrayRecord(before.state_dict()), ndarrays(after))
    check(update, before, after)


def test_the_older_interface(before, after):
    sent = FitIns(ndarrays_to_parameters(ndarrays(before)), {})
    parameters = ndarrays_to_parameters(ndarrays(after))
    received = FitRes(Status(Code.OK, ""), parameters, 4, {})
    check(read_update(sent, received, model=make_model()), before, after)


def test_batch_norm_buffers_are_no_change():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model(torch.randn(5, 3, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        model[0].weight += 1
    after = ArrayRecord(model.state_dict())
    update = read_update(ArrayRecord(before), after)
    assert set(update.delta) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert "1.running_mean" in update.weights


@pytest.mark.parametrize("contains", ["delta", "gradient"])
def test_replies_that_are_the_change_itself(before, after, contains):
    sent, change = ArrayRecord(before.state_dict()), expected(before, after)
    update = read_update(sent, ArrayRecord(change), contains=contains)
    assert update.observed_kind == contains
    assert torch.equal(update.observed["fc1.weight"], change["fc1.weight"])


def test_what_is_known_is_passed_on(before, after):
    settings = {
        "step": LocalTraining(0.1, epochs=2),
        "noise": 1e-3,
        "preprocessing": Preprocessing(image_shape=(1, 5, 6)),
    }
    update = read_update(ndarrays(before), ndarrays(after), model=make_model(), **settings)
    assert {name: getattr(update, name) for name in settings} == settings


def test_another_models_reply_is_refused(before):
    with pytest.raises(InputError):
        read_update(ArrayRecord(before.state_dict()), ArrayRecord(nn.Linear(3, 2).state_dict()))


def test_a_client_that_did_not_train_is_refused(before):
    arrays = ArrayRecord(before.state_dict())
    with pytest.raises(InputError, match="no change of any weight"):
        read_update(arrays, arrays)
