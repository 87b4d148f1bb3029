from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gradaudit.capture import load_update
from gradaudit.preprocessing import Preprocessing
from gradaudit.tensorfile import sha256_of
from gradaudit.update import GradientStep, Update


def test_one_own_file(tmp_path, weights, gradient):
    grey = Preprocessing(image_shape=(1, 2, 2), mean=(0.5,), std=(0.25,))
    update = Update(weights, gradient, step=GradientStep(0.5), preprocessing=grey)
    update.save(tmp_path / "u")
    loaded = load_update(tmp_path / "u")
    assert loaded.sha256() == update.sha256()
    assert loaded.step == update.step
    assert loaded.preprocessing == grey
    other = Preprocessing(image_shape=(4, 1, 1))
    assert load_update(tmp_path / "u", preprocessing=other).preprocessing == other
    assert load_update(str(tmp_path / "u"), learning_rate=0.5).step == update.step


def test_learning_rates_must_agree(tmp_path, refusal, weights, gradient):
    Update(weights, gradient, step=GradientStep(0.5)).save(tmp_path / "u")
    assert "0.5, which 'u' says" in refusal(tmp_path / "u", learning_rate=0.1)
    Update(weights, gradient).save(tmp_path / "v")
    assert load_update(tmp_path / "v", learning_rate=0.1).step == GradientStep(0.1)


def test_own_delta_keeps_its_buffers(tmp_path):
    named = {"bn.weight": torch.ones(2), "bn.running_mean": torch.ones(2)}
    update = Update(named, delta={k: 2 * t for k, t in named.items()})
    update.save(tmp_path / "u")
    assert load_update(tmp_path / "u").sha256() == update.sha256()


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), "0.1", True, [1]])
@pytest.mark.wrong_types
def test_bad_learning_rates(refusal, save, weights, gradient, rate):
    path = save("u", {"weights": weights, "gradient": gradient})
    assert refusal(path, learning_rate=rate).startswith("learning_rate: found")


@pytest.mark.parametrize("path", [None, 3, {}, torch.ones(2)])
@pytest.mark.wrong_types
def test_paths_that_are_none(refusal, path):
    assert "expected a path to a file" in refusal(path)


@pytest.mark.wrong_types
def test_contains_must_be_known(refusal, save, weights):
    assert "'weights_after'" in refusal(save("u", weights), contains="grads")


def test_pair_defaults(save, weights, gradient, after):
    w = save("w", weights)
    update = load_update(save("g", gradient), w)
    assert update.observed_kind == "gradient"
    assert torch.equal(update.observed["fc1.bias"], gradient["fc1.bias"])
    stepped = load_update(save("a", after), w, learning_rate=0.01)
    assert stepped.observed_kind == "delta"
    assert stepped.step == GradientStep(0.01)
    for name, change in stepped.observed.items():
        assert torch.equal(change, after[name] - weights[name])
    unknown = load_update(save("a", after), w, contains="weights_after")
    assert unknown.step == GradientStep(None)
    assert torch.equal(unknown.observed["fc1.bias"], stepped.observed["fc1.bias"])


def test_delta_pair(save, weights, gradient):
    delta = {k: -0.01 * t for k, t in gradient.items()} | {"bn.running_mean": torch.ones(2)}
    w = save("w", weights | {"bn.running_mean": torch.zeros(2)})
    update = load_update(save("d", delta), w, contains="delta")
    assert update.observed_kind == "delta"
    assert set(update.observed) == set(gradient)
    assert update.step == GradientStep(None)


def test_what_a_file_says_decides(save, refusal, weights, gradient, after):
    w = save("w", {"state_dict": weights, "epoch": 3})
    says = save("g", {"gradient": gradient})
    assert load_update(says, w, learning_rate=0.1).observed_kind == "gradient"
    assert "'gradient', which is what the file says" in refusal(says, w, contains="delta")
    assert load_update(save("a", {"model": after}), w).observed_kind == "delta"
    one = save("one", {"weights": weights, "weights_after": after})
    assert torch.equal(
        load_update(one).observed["fc1.bias"], after["fc1.bias"] - weights["fc1.bias"]
    )
    both = {"weights": weights, "gradient": gradient, "delta": after}
    assert "exactly one of them" in refusal(save("both", both))
    assert "weights in one place" in refusal(save("u", {"weights": weights, "grad": gradient}), w)
    assert "check which file is which" in refusal(save("a", after), says)


def test_a_full_update_may_serve_as_the_weights(save, weights, gradient):
    full = save("full", {"weights": weights, "gradient": gradient})
    double = {k: 2 * t for k, t in gradient.items()}
    update = load_update(save("g", double), full)
    assert torch.equal(update.observed["fc1.bias"], double["fc1.bias"])


def test_halves_of_an_update(refusal, save, weights, gradient):
    assert "pass the weights before" in refusal(save("g", gradient))
    assert "only weights" in refusal(save("w", {"weights": weights}))
    assert "without weights" in refusal(save("g", {"gradient": gradient}))


def test_mistakes_in_pairs(refusal, save, weights, gradient, after):
    w, a, g = save("w", weights), save("a", after), save("g", gradient)
    assert "contains='weights_after'" in refusal(a, w)
    assert "contains='weights_after'" in refusal(a, w, contains="gradient")
    assert "contains='weights_after'" in refusal(a, w, contains="delta")
    assert "contains='gradient'" in refusal(g, w, learning_rate=0.1)
    # Said outright, it is believed: a client may take one huge step.
    assert load_update(g, w, contains="weights_after").observed_kind == "delta"
    assert "the content of the update's own file" in refusal(w, w)
    zero = save("z", {k: torch.zeros_like(t) for k, t in weights.items()})
    assert "no change" in refusal(zero, w, contains="delta")
    copy = save("copy", {"weights_after": weights})
    assert "no change" in refusal(copy, w)
    batchnorm = gradient | {"bn.running_mean": torch.ones(2)}
    bn_weights = save("bw", weights | {"bn.running_mean": torch.zeros(2)})
    assert "BatchNorm buffer" in refusal(save("bg", batchnorm), bn_weights)


def test_mismatches_name_the_tensor(refusal, save, weights, gradient):
    w = save("w", weights)
    other = gradient | {"fc1.bias": torch.ones(7)}
    assert "'fc1.bias'" in refusal(save("g", other), w)
    assert "'fc9.bias'" in refusal(save("g", gradient | {"fc9.bias": torch.ones(3)}), w)
    integer = gradient | {"fc1.bias": torch.ones(6, dtype=torch.int8)}
    assert "int8" in refusal(save("g", integer), w)
    for bad in (float("nan"), float("inf"), -float("inf")):
        damaged = gradient | {"fc1.bias": torch.full((6,), bad)}
        assert "not finite" in refusal(save("g", damaged), w)
    quantised = weights | {"fc1.weight": torch.ones(6, 4, dtype=torch.int8)}
    assert "int8" in refusal(save("q", quantised), w, contains="weights_after")


def test_wrappers_prefixes_may_differ(save, weights, after):
    wrapped = {f"_module.{k}": t for k, t in after.items()}
    update = load_update(save("a", wrapped), save("w", weights), learning_rate=0.01)
    assert set(update.observed) == set(weights)
    wrapped_weights = save("w", {f"module.{k}": t for k, t in weights.items()})
    assert "within" in refusal_text(save("a", wrapped), wrapped_weights)


def refusal_text(path: Path, weights: Path) -> str:
    try:
        load_update(path, weights)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_pair(save, weights, after, dtype):
    halves = [{k: t.to(dtype) for k, t in named.items()} for named in (weights, after)]
    update = load_update(save("a", halves[1]), save("w", halves[0]), learning_rate=0.01)
    for name, change in update.observed.items():
        assert change.dtype == torch.float32
        assert torch.equal(change, halves[1][name].float() - halves[0][name].float())


def test_batchnorm_model_from_two_state_dicts(save):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    before = {k: t.clone() for k, t in model.state_dict().items()}
    model(torch.randn(8, 3)).square().sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad
    pair = save("after", model.state_dict()), save("before", before)
    update = load_update(*pair, learning_rate=0.01)
    assert set(update.observed) == {name for name, _ in model.named_parameters()}
    gradient = {name: p.grad for name, p in model.named_parameters()}
    for name, change in update.observed.items():
        assert torch.allclose(change / -0.01, gradient[name], atol=1e-4)


def _flower(named: dict[str, torch.Tensor], path: Path) -> Path:
    np.savez(path, *[t.numpy() for t in named.values()])
    return path


def test_flower_lists_take_the_weights_names(tmp_path, refusal, save, weights, after):
    sent = _flower(after, tmp_path / "client.npz")
    update = load_update(sent, save("w.pt", weights), learning_rate=0.01)
    assert list(update.observed) == list(weights)
    assert torch.equal(update.observed["fc2.bias"], after["fc2.bias"] - weights["fc2.bias"])
    unnamed = _flower(weights, tmp_path / "server.npz")
    assert "parameter names in at least the weights" in refusal(sent, unnamed, learning_rate=0.01)
    save_file(weights, tmp_path / "w.safetensors")
    by_shape = load_update(sent, tmp_path / "w.safetensors", learning_rate=0.01)
    assert by_shape.sha256() == update.sha256()


def test_lists_of_gradients(save, weights, gradient):
    """What `torch.autograd.grad` returns, saved as it is."""
    path = save("u", {"weights": weights, "gradient": tuple(gradient.values())})
    assert load_update(path).sha256() == Update(weights, gradient).sha256()


def test_source_names_no_folders(tmp_path, weights, gradient):
    (tmp_path / "server").mkdir()
    torch.save(weights, tmp_path / "server" / "m.pt")
    torch.save(gradient, tmp_path / "m.pt")
    update = load_update(tmp_path / "m.pt", tmp_path / "server" / "m.pt")
    assert dict(update.source) == {
        "m.pt": sha256_of(tmp_path / "m.pt"),
        "m.pt (weights)": sha256_of(tmp_path / "server" / "m.pt"),
    }


def test_names_in_other_scripts_and_bytes(tmp_path, weights, gradient):
    path = tmp_path / "Ünïcode 更新 ✓.pt"
    torch.save({"weights": weights, "gradient": gradient}, path)
    assert set(load_update(path).source) == {path.name}
    raw = os.fsencode(tmp_path) + b"/\xff.pt"
    try:
        Path(os.fsdecode(raw)).write_bytes(path.read_bytes())
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    assert load_update(os.fsdecode(raw)).observed_kind == "gradient"


def test_scalars(save):
    named = {"scale": torch.tensor(2.0), "fc.weight": torch.ones(2, 2)}
    update = load_update(save("u", {"weights": named, "delta": {"scale": torch.tensor(0.5)}}))
    assert update.observed["scale"].shape == ()


def test_a_file_that_vanishes(save, monkeypatch, refusal, weights, gradient):
    def gone(_path):
        raise FileNotFoundError(2, "No such file or directory")

    path = save("u", {"weights": weights, "gradient": gradient})
    monkeypatch.setattr("gradaudit.capture.load.sha256_of", gone)
    assert "No such file" in refusal(path)


def test_a_data_set_is_no_update(refusal):
    folder = os.environ.get("GRADAUDIT_DATA")
    if not folder or not (Path(folder) / "mnist_3000.npz").exists():
        pytest.skip("GRADAUDIT_DATA does not name a folder with mnist_3000.npz")
    assert "tensors that do not say what they are" in refusal(Path(folder) / "mnist_3000.npz")
