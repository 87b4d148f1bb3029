from __future__ import annotations

from dataclasses import fields, replace

import pytest

from gradaudit.bulk import AuditSettings, Reading
from gradaudit.bulk.job import key
from gradaudit.preprocessing import Preprocessing

SETTINGS = {
    "model": "mlp:6-16-3",
    "loss": "mse",
    "layer": "fc1",
    "attack": "spear",
    "batch_size": 3,
    "labels": (1, 2),
    "restarts": 2,
    "iterations": 3,
    "invert_features": True,
    "seed": 1,
    "device": "cpu",
    "seconds": 60.0,
    "submatrices": None,
    "keep_records": False,
    "memory": 2**30,
}
READING = {
    "contains": "gradient",
    "learning_rate": 0.1,
    "noise": 0.0,
    "local_epochs": 2,
    "local_batch_size": 3,
    "momentum": 0.5,
    "weight_decay": 0.01,
    "optimizer": "adam",
    "local_records": 12,
    "preprocessing": Preprocessing((1, 2, 3)),
}


@pytest.mark.parametrize("name", [field.name for field in fields(AuditSettings)])
def test_each_setting_determines_the_result(name):
    other = replace(AuditSettings(), **{name: SETTINGS[name]})
    assert key(["a"], Reading(), AuditSettings()) != key(["a"], Reading(), other)


@pytest.mark.parametrize("name", [field.name for field in fields(Reading)])
def test_so_does_all_that_is_said_but_the_path_of_the_weights(name):
    if name == "weights":
        assert key(["a"], Reading("w"), AuditSettings()) == key(["a"], Reading(), AuditSettings())
        return
    other = Reading(**{name: READING[name]})
    assert key(["a"], Reading(), AuditSettings()) != key(["a"], other, AuditSettings())


def test_so_do_the_files_and_their_parts():
    keys = [key(files, Reading(), AuditSettings()) for files in (["a"], ["a", "w"], ["w", "a"])]
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("contains", "records"),
        ("learning_rate", 0.0),
        ("noise", -1.0),
        ("noise", float("nan")),
        ("momentum", 1.5),
        ("local_epochs", 0),
    ],
)
def test_what_is_out_of_range_is_refused_when_it_is_said(name, value):
    with pytest.raises(ValueError, match="expected"):
        Reading(**{name: value})
