"""Asking again in Python: what a file cannot hold is given again."""

from __future__ import annotations

import pytest
import torch
from cli.material import CLASSES, FEATURES, WIDTH, save_update
from torch.nn import functional

import gradaudit as ga
from gradaudit.errors import InputError
from gradaudit.result import Sameness


def own_loss(outputs, labels):
    return functional.cross_entropy(outputs, labels, reduction="none")


def network(activation="relu"):
    return ga.models.mlp(FEATURES, [WIDTH, WIDTH], CLASSES, activation=activation)


def test_an_own_network_and_loss_are_given_again(tmp_path):
    update = ga.load_update(save_update(tmp_path))
    before = ga.audit(update, model=network(), loss=own_loss)
    before.save(tmp_path / "result.json")
    assert before.request.loss is None
    assert before.request.model.spec is None
    with pytest.raises(InputError, match="the same function"):
        ga.rerun(tmp_path / "result.json", model=network())
    with pytest.raises(InputError, match="one of own code"):
        ga.rerun(tmp_path / "result.json", loss=own_loss)
    with pytest.raises(InputError, match="another structure"):
        ga.rerun(tmp_path / "result.json", model=network("tanh"), loss=own_loss)
    again = ga.rerun(tmp_path / "result.json", model=network(), loss=own_loss)
    assert again.repetition.sameness is Sameness.IDENTICAL


def test_an_update_that_no_file_held_is_saved_first(tmp_path):
    update = ga.load_update(save_update(tmp_path))
    received = ga.Update(dict(update.weights), dict(update.gradient))
    ga.audit(received).save(tmp_path / "result.json")
    with pytest.raises(InputError, match=r"save it with Update\.save"):
        ga.rerun(tmp_path / "result.json")
    received.save(tmp_path / "received.safetensors")
    again = ga.rerun(tmp_path / "result.json", update=tmp_path / "received.safetensors")
    assert again.repetition.sameness is Sameness.IDENTICAL
    with pytest.raises(InputError, match="the audit was given none"):
        ga.rerun(
            tmp_path / "result.json", update=tmp_path / "received.safetensors", model=network()
        )


def test_threads_are_those_of_then_and_put_back(tmp_path, monkeypatch):
    update = ga.load_update(save_update(tmp_path))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        ga.audit(update).save(tmp_path / "result.json")
        torch.set_num_threads(1)
        again = ga.rerun(tmp_path / "result.json")
        assert again.result.search.threads == 2
        assert torch.get_num_threads() == 1
        assert again.repetition.sameness is Sameness.IDENTICAL
        monkeypatch.setattr("os.cpu_count", lambda: 1)
        fewer = ga.rerun(tmp_path / "result.json")
        assert "threads 2 and 1" in fewer.repetition.statement()
    finally:
        torch.set_num_threads(usual)
