"""What is written down of an audit's arguments."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from gradaudit.budget import Budget
from gradaudit.errors import InputError
from gradaudit.gradient_matching import DLG, INVERTING_GRADIENTS, Knowledge
from gradaudit.models import get_loss, parse_model
from gradaudit.session.request import matching_of, note_request, structure_of
from gradaudit.update import Update


def noted(**changes):
    weights = {"w": torch.zeros(2, 2)}
    usual = {
        **dict.fromkeys(("loss", "layer", "attack"), "auto"),
        **dict.fromkeys(("network", "knowledge", "method")),
        **{"invert_features": False, "seed": 0, "device": "cpu", "budget": Budget()},
    }
    return note_request(Update(weights, weights), **{**usual, **changes})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (nn.Linear(3, 2), nn.Linear(3, 2, bias=False)),
        (nn.Conv2d(1, 2, 3), nn.Conv2d(1, 2, 3, stride=2)),
        (nn.Sequential(nn.Linear(3, 2), nn.ReLU()), nn.Sequential(nn.Linear(3, 2), nn.Tanh())),
        (nn.Linear(3, 2), nn.Linear(3, 2).double()),
    ],
)
def test_structures_are_told_apart_but_not_weights(one, other):
    assert structure_of(one) != structure_of(other)
    first, second = (parse_model("mlp:4-3-2", seed=seed) for seed in (0, 1))
    assert structure_of(first) == structure_of(second)


def test_an_address_in_memory_is_no_structure():
    class Printing(nn.Module):
        def extra_repr(self) -> str:
            return repr(object())

    assert structure_of(Printing()) == structure_of(Printing())


def test_methods_and_knowledge_come_back():
    for method in (DLG, replace(INVERTING_GRADIENTS, restarts=3)):
        known = Knowledge(labels=(1, 0), input_shape=(4,))
        assert matching_of(noted(method=method, knowledge=known)) == (known, method)
    assert matching_of(noted()) == (None, None)
    method = noted(method=DLG).method
    for changes in ({"name": "other"}, {"dtype": "complex64"}, {"distance": "far"}):
        with pytest.raises(InputError):
            matching_of(replace(noted(), method=replace(method, **changes)))


def test_a_loss_of_ours_has_a_name_and_a_function_has_none():
    assert noted(loss="mse").loss == noted(loss=get_loss("mse")).loss == "mse"

    def cross_entropy(outputs, labels):
        return outputs.sum(1)

    # It bears the name of ours, and is not ours.
    assert noted(loss=cross_entropy).loss is None
    assert noted(loss=get_loss(cross_entropy)).loss is None
