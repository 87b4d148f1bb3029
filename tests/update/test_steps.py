from __future__ import annotations

import dataclasses
import json

import pytest

from gradaudit.errors import InputError
from gradaudit.update import GradientStep, LocalTraining, step_from_text, step_to_text

EVERYTHING = LocalTraining(0.1, 3, 5, "sgd", 0.9, 1e-4, True, 0.0, 20)


@pytest.mark.parametrize(
    "values",
    [
        {"learning_rate": 0.0},
        {"learning_rate": True},
        {"epochs": 0},
        {"epochs": 1.5},
        {"epochs": True},
        {"batch_size": 0},
        {"records": 0},
        {"momentum": 1.0},
        {"momentum": -0.1},
        {"momentum": float("nan")},
        {"weight_decay": -1e-4},
        {"weight_decay": float("inf")},
        {"dampening": 1.5},
        {"optimizer": " "},
        {"optimizer": None},
        {"nesterov": True},
        {"nesterov": True, "momentum": 0.9, "dampening": 0.1},
    ],
)
@pytest.mark.wrong_types
def test_values_out_of_range_are_named(values):
    with pytest.raises(InputError) as caught:
        LocalTraining(**values)
    assert caught.value.argument in values


@pytest.mark.parametrize(
    ("training", "records", "steps"),
    [
        (LocalTraining(epochs=3), None, 3),
        (LocalTraining(epochs=3, batch_size=5), None, None),
        (LocalTraining(epochs=3, batch_size=5), 20, 12),
        (LocalTraining(epochs=3, batch_size=5), 21, 15),
        (LocalTraining(epochs=3, batch_size=5), 4, 3),
        # What the training says itself counts.
        (LocalTraining(epochs=2, batch_size=5, records=11), 99, 6),
    ],
)
def test_steps(training, records, steps):
    assert training.steps(records) == steps


def test_only_plain_sgd_is_linear():
    assert LocalTraining(optimizer=" SGD ").is_linear
    assert not any(LocalTraining(optimizer=o).is_linear for o in ("adam", "AdamW", "rmsprop"))


@pytest.mark.parametrize("step", [GradientStep(), GradientStep(0.5), LocalTraining(), EVERYTHING])
def test_text_round_trip(step):
    assert step_from_text(step_to_text(step), "f") == step


def test_text_is_checked_strictly():
    good = json.loads(step_to_text(EVERYTHING))
    for name in (field.name for field in dataclasses.fields(EVERYTHING)):
        with pytest.raises(InputError, match=f"no '{name}'"):
            step_from_text(json.dumps({k: v for k, v in good.items() if k != name}), "f")
    changes = ({"epochs": 0}, {"epochs": None}, {"epochs": "3"}, {"momentum": None}, {"x": 1})
    for change in (*changes, {"kind": 3}, {"kind": "gradient"}):
        with pytest.raises(InputError):
            step_from_text(json.dumps(good | change), "f")
