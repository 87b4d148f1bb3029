"""What NVFlare, Lightning and Hugging Face write, as it was found in files of theirs."""

from __future__ import annotations

import json
from collections import OrderedDict

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gradaudit import audit
from gradaudit.capture import load_update
from gradaudit.clients import FedSGD
from gradaudit.models import mlp


def lightning(weights, prefix="net."):
    """The entries of a checkpoint of Lightning 2.6 (a LightningModule with ``self.net``)."""
    return {
        "epoch": 1,
        "global_step": 1,
        "pytorch-lightning_version": "2.6.6",
        "state_dict": OrderedDict((prefix + name, t) for name, t in weights.items()),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 1}}}},
        "callbacks": {
            "ModelCheckpoint{'monitor': None}": {"best_model_score": torch.tensor(0.5), "k": {}}
        },
        "optimizer_states": [{"state": {}, "param_groups": [{"lr": 0.1, "params": [0, 1]}]}],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": {"width": 8, "lr": 0.1},
    }


def assert_delta(update, weights, after, prefix=""):
    assert update.observed_kind == "delta"
    assert set(update.delta) == {prefix + name for name in weights}
    for name in weights:
        assert update.delta[prefix + name].equal(after[name] - weights[name])


def test_lightning_before_and_after(save, weights, after):
    update = load_update(save("after.ckpt", lightning(after)), save("b", lightning(weights)))
    assert_delta(update, weights, after, "net.")


def test_lightning_beside_a_plain_file(save, weights, after, gradient):
    plain, wrapped = save("plain.pt", weights), save("wrapped.ckpt", lightning(weights))
    assert_delta(load_update(save("after.ckpt", lightning(after)), plain), weights, after)
    update = load_update(save("after.pt", after), wrapped, contains="weights_after")
    assert_delta(update, weights, after, "net.")
    update = load_update(save("gradient.pt", gradient), wrapped)
    assert set(update.gradient) == {f"net.{name}" for name in weights}


def test_hyperparameters_that_are_objects_are_not_run(save, weights, refusal):
    checkpoint = lightning(weights) | {"hyper_parameters": {"device": torch.device("cpu")}}
    text = refusal(save("after.ckpt", checkpoint), save("before.pt", weights))
    assert "'torch.device' in its pickle, which was not run" in text


def test_the_network_alone_is_the_model_of_a_lightning_checkpoint(save):
    """The proof and the labels need the model, which is given without the module around it."""
    model = mlp(20, [60], 3, dtype=torch.float64, seed=2)
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(3, 20, generator=generator).double()
    sent, _ = FedSGD(model).update(inputs, torch.tensor([0, 1, 2]))
    before = save("before.ckpt", lightning(sent.weights, "model.net."))
    result = audit(load_update(save("gradient.pt", dict(sent.gradient)), before), model=model)
    assert result.records_recovered == 3
    assert sorted(result.labels) == [0, 1, 2]


@pytest.mark.parametrize("style", ["plain", "prefixed", "exchange"])
def test_nvflare_weight_differences(tmp_path, save, weights, gradient, style):
    before = save("model.pt", {"model": weights, "train_conf": {"train": {"model": "net"}}})
    path = tmp_path / "reply.npz"
    arrays = {name: tensor.numpy() for name, tensor in gradient.items()}
    if style == "plain":
        np.savez(path, **arrays)
    elif style == "prefixed":
        np.savez(path, **{f"WEIGHT_DIFF/{name}": array for name, array in arrays.items()})
    else:
        meta = {"NUM_STEPS_CURRENT_ROUND": 1}
        path = save("reply.pt", {"kind": "WEIGHT_DIFF", "data": gradient, "meta": meta})
    update = load_update(path, before, contains="delta" if style == "plain" else "auto")
    assert update.observed_kind == "delta"
    assert all(update.delta[name].equal(gradient[name]) for name in weights)


def test_nvflare_weights_are_those_after(save, weights, after):
    path = save("reply.pt", {"kind": "WEIGHTS", "data": after, "meta": {}})
    assert_delta(load_update(path, save("before.pt", weights)), weights, after)


def test_other_exchanges_are_refused(save, weights, refusal):
    path = save("reply.pt", {"kind": "METRICS", "data": {"accuracy": 0.5}, "meta": {}})
    assert "an exchange of the kind 'METRICS'" in refusal(path, save("before.pt", weights))


def test_tied_weights_that_safetensors_holds_once(tmp_path, save, weights, after):
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    tied = after | {"head.weight": after["fc2.weight"]}
    update = load_update(
        save("after.pt", tied), tmp_path / "model.safetensors", contains="weights_after"
    )
    assert_delta(update, weights, after)


def test_checkpoints_in_several_files_are_refused(tmp_path, save, weights, refusal):
    index = {"metadata": {"total_size": 9}, "weight_map": {"a": "model-00001.safetensors"}}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index, indent=2))
    text = refusal(path, save("before.pt", weights))
    assert "the index of a checkpoint in several files" in text
    assert "save model.state_dict() as one file" in text
