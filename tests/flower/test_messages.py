"""What is found in a message: the model's arrays, a count of examples, a mask."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra gradaudit[flower]")

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key

from flower.material import make_grid
from gradaudit.errors import InputError
from gradaudit.flower.messages import (
    MASKED_PARAMETERS,
    find_arrays,
    is_masked,
    is_training,
    keep_arrays,
    num_examples,
)

ARRAYS = ArrayRecord([np.zeros(2)])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("train", True), ("train.warm_up", True), ("evaluate", False), ("query.train", False)],
)
def test_training_is_told_by_the_messages_type(kind, expected):
    make_grid()
    assert is_training(Message(RecordDict(), 1, kind)) == expected


def test_kept_arrays_outlive_the_reading():
    content = RecordDict({"arrays": ArrayRecord([np.ones(2)]), "config": ConfigRecord({"a": 1})})
    kept = keep_arrays(content)
    content["arrays"].to_numpy_ndarrays(keep_input=False)
    assert not content["arrays"]
    assert list(kept) == ["arrays"]
    assert kept["arrays"]["0"].numpy().tolist() == [1, 1]


def test_the_only_record_is_the_model():
    sent, reply = RecordDict({"a": ARRAYS, "c": ConfigRecord()}), RecordDict({"b": ARRAYS})
    assert find_arrays(sent, reply, None) == ("a", "b")


def test_of_several_records_one_must_be_named():
    several = RecordDict({"model": ARRAYS, "control": ARRAYS})
    assert find_arrays(several, several, "model") == ("model", "model")
    with pytest.raises(InputError, match=r"'model', 'control'.*pass arrays_key="):
        find_arrays(several, several, None)
    with pytest.raises(InputError, match="no record of arrays"):
        find_arrays(several, RecordDict(), "model")


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"num-examples": 8, "loss": 0.5}, 8),
        ({"num_examples": 3.0}, 3),
        ({"loss": 0.5}, None),
        ({"num-examples": 0}, None),
        ({"num-examples": 2.5}, None),
        ({"num-examples": float("nan")}, None),
        ({"num-examples": float("inf")}, None),
        ({"num-examples": [3]}, None),
    ],
)
def test_the_number_of_examples(metrics, expected):
    assert num_examples(RecordDict({"metrics": MetricRecord(metrics)})) == expected
    assert num_examples(RecordDict()) is None


def test_masks_are_told_by_flowers_own_key():
    assert Key.MASKED_PARAMETERS == MASKED_PARAMETERS
    masked = ConfigRecord({MASKED_PARAMETERS: [b""]})
    assert is_masked(RecordDict({RECORD_KEY_CONFIGS: masked}))
    assert not is_masked(RecordDict({"config": ConfigRecord({"lr": 0.1}), "arrays": ARRAYS}))
