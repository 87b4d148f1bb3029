"""A defence is applied to the change, and to nothing else."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr", reason="needs the extra gradaudit[flower]")

import torch
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from torch import nn

from gradaudit.defenses import ClipUpdate, GaussianNoise, Pipeline
from gradaudit.flower import Auditor
from gradaudit.flower.defending import defend


def contents(dtype: torch.dtype) -> tuple[RecordDict, RecordDict]:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to(dtype)
    sent = RecordDict({"arrays": ArrayRecord(model.state_dict())})
    model(torch.ones(4, 2, dtype=dtype))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.25
    metrics = MetricRecord({"num-examples": 4})
    return sent, RecordDict({"new": ArrayRecord(model.state_dict()), "metrics": metrics})


def tensors(content: RecordDict, key: str) -> dict[str, torch.Tensor]:
    return content[key].to_torch_state_dict()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_change_alone_is_defended(dtype):
    sent, reply = contents(dtype)
    made, noise = defend(Auditor(), sent, reply, Pipeline.of([ClipUpdate(0.5)]))
    before, after, defended = tensors(sent, "arrays"), tensors(reply, "new"), tensors(made, "new")
    assert list(defended) == list(after)
    assert made["metrics"] == reply["metrics"]
    square = 0.0
    for name, tensor in defended.items():
        assert (tensor.dtype, tensor.shape) == (after[name].dtype, after[name].shape)
        if "running" in name or "num_batches" in name:
            assert torch.equal(tensor, after[name])
        else:
            square += float((tensor - before[name]).square().sum())
    assert square**0.5 == pytest.approx(0.5, rel=1e-5)
    assert noise == 0.0


def test_a_change_that_is_sent_as_such_is_defended_as_such():
    sent, _ = contents(torch.float32)
    change = {name: torch.ones_like(t) for name, t in tensors(sent, "arrays").items()}
    reply = RecordDict({"arrays": ArrayRecord(change)})
    pipeline = Pipeline.of([ClipUpdate(1.0)])
    made, _ = defend(Auditor(contains="delta"), sent, reply, pipeline)
    learned = [t for n, t in tensors(made, "arrays").items() if n in ("0.weight", "0.bias")]
    # 15 entries of 1 that take part: 9 of the linear layer, 6 of BatchNorm.
    assert all(torch.allclose(t, torch.tensor(15**-0.5)) for t in learned)


def test_the_noise_that_is_known_is_told():
    sent, reply = contents(torch.float32)
    pipeline = Pipeline.of([GaussianNoise(3e-3)])
    assert defend(Auditor(noise=4e-3), sent, reply, pipeline)[1] == pytest.approx(5e-3)
