import numpy as np
import pytest
import torch

from gradaudit.data import digits, patches
from gradaudit.data.source import RecordSet
from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing


def numbered():
    records = np.arange(20.0)[:, None]
    labels = [0] * 3 + [1] * 7 + [2] * 10
    return RecordSet("numbers", labels, records.__getitem__, Preprocessing(), 4)


SOURCES = [numbered, lambda: digits(), lambda: patches(8)]


@pytest.mark.parametrize("make", SOURCES)
def test_batches_are_determined_by_the_seed_alone(make):
    source = make()
    state = torch.random.get_rng_state()
    first = source.batch(3, seed=5)
    assert torch.equal(first.inputs, make().batch(3, seed=5).inputs)
    assert torch.equal(
        first.inputs, source.batch(3, generator=torch.Generator().manual_seed(5)).inputs
    )
    assert not torch.equal(first.inputs, source.batch(3, seed=6).inputs)
    generator = torch.Generator()
    assert not torch.equal(
        source.batch(3, generator=generator).inputs, source.batch(3, generator=generator).inputs
    )
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first.inputs.dtype == torch.float64
    assert source.batch(3, dtype=torch.float32).inputs.dtype == torch.float32
    assert first.labels.dtype == torch.int64


def test_records_and_labels_belong_together_and_none_comes_twice():
    batch = numbered().batch(20, seed=1)
    assert sorted(batch.inputs[:, 0].tolist()) == list(range(20))
    expected = [0 if x < 3 else 1 if x < 10 else 2 for x in batch.inputs[:, 0].tolist()]
    assert batch.labels.tolist() == expected


def test_labels_can_be_asked_for():
    source = numbered()
    assert set(source.batch(7, label=1).labels.tolist()) == {1}
    orders = [tuple(source.batch(3, labels="distinct", seed=s).labels.tolist()) for s in range(9)]
    assert {tuple(sorted(order)) for order in orders} == {(0, 1, 2)}
    assert len(set(orders)) > 1


@pytest.mark.parametrize(
    "request_",
    [
        {"batch_size": 0},
        {"batch_size": 2.0},
        {"batch_size": 21},
        {"batch_size": 4, "labels": "distinct"},
        {"batch_size": 4, "label": 0},
        {"batch_size": 1, "label": 3},
        {"batch_size": 1, "label": 9},
        {"batch_size": 1, "labels": "balanced"},
        {"batch_size": 1, "label": 1, "labels": "distinct"},
        {"batch_size": 1, "seed": -1},
    ],
)
@pytest.mark.wrong_types
def test_batches_that_do_not_exist(request_):
    with pytest.raises(InputError):
        numbered().batch(**request_)
