"""Every format brings the same update back, bit for bit, from one file and from a pair."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from gradaudit.capture import load_update
from gradaudit.errors import InputError
from gradaudit.update import Update

Named = dict[str, Tensor]
Groups = dict[str, Named]
Writer = Callable[[Path, Groups], None]


def _flat(groups: Groups) -> Named:
    """A single group without a name is a plain file."""
    return {f"{g}/{k}" if g else k: t for g, named in groups.items() for k, t in named.items()}


def _array(tensor: Tensor) -> np.ndarray:
    # numpy has no bfloat16; what libraries write for it is two opaque bytes.
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view("V2")
    return tensor.numpy()


def write_safetensors(path: Path, groups: Groups) -> None:
    save_file(_flat(groups), path)


def write_torch_nested(path: Path, groups: Groups) -> None:
    torch.save(groups[""] if set(groups) == {""} else groups, path)


def write_torch_flat(path: Path, groups: Groups) -> None:
    torch.save(_flat(groups), path)


def write_npz(path: Path, groups: Groups) -> None:
    with path.open("wb") as stream:
        np.savez(stream, **{k: _array(t) for k, t in _flat(groups).items()})


def write_npz_compressed(path: Path, groups: Groups) -> None:
    with path.open("wb") as stream:
        np.savez_compressed(stream, **{k: _array(t) for k, t in _flat(groups).items()})


def _foreign(tensor: Tensor) -> np.ndarray:
    array = _array(tensor)
    return np.array(array, dtype=array.dtype.newbyteorder(">"), order="F")


def write_npz_foreign(path: Path, groups: Groups) -> None:
    """Column-major and big-endian."""
    with path.open("wb") as stream:
        np.savez(stream, **{k: _foreign(t) for k, t in _flat(groups).items()})


WRITERS: dict[str, Writer] = {
    writer.__name__.removeprefix("write_"): writer
    for writer in (
        write_safetensors,
        write_torch_nested,
        write_torch_flat,
        write_npz,
        write_npz_compressed,
        write_npz_foreign,
    )
}
DTYPES = (torch.float16, torch.float32, torch.float64, torch.bfloat16)


def _tensors(seed: int, dtype: torch.dtype) -> Named:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"conv.weight": (2, 1, 3, 3), "fc.weight": (5, 8), "fc.bias": (5,), "scale": ()}
    return {k: torch.randn(s, generator=generator).to(dtype) for k, s in shapes.items()}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["gradient", "delta"])
@pytest.mark.parametrize("form", ["single", "pair"])
@pytest.mark.parametrize("name", WRITERS)
def test_round_trip(tmp_path, name, form, kind, dtype):
    weights, observed = _tensors(1, dtype), _tensors(2, dtype)
    path, before = tmp_path / "update", tmp_path / "weights"

    def load() -> Update:
        if form == "single":
            WRITERS[name](path, {"weights": weights, kind: observed})
            return load_update(path)
        WRITERS[name](path, {"": observed})
        WRITERS[name](before, {"": weights})
        return load_update(path, before, contains=kind)

    if dtype == torch.bfloat16 and "npz" in name:
        with pytest.raises(InputError, match=r"bfloat16, which \.npz cannot hold, save float32"):
            load()
        return
    update = load()
    assert update.observed_kind == kind
    assert update.sha256() == Update(weights, **{kind: observed}).sha256()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["gradient", "delta"])
def test_own_layout(tmp_path, kind, dtype):
    update = Update(_tensors(1, dtype), **{kind: _tensors(2, dtype)})
    update.save(tmp_path / "update")
    assert load_update(tmp_path / "update").sha256() == update.sha256()


@pytest.mark.parametrize("before_format", WRITERS)
@pytest.mark.parametrize("after_format", WRITERS)
def test_a_pair_may_mix_formats(tmp_path, before_format, after_format):
    weights, step = _tensors(1, torch.float32), _tensors(2, torch.float32)
    after = {k: weights[k] - 0.1 * step[k] for k in weights}
    WRITERS[before_format](tmp_path / "before", {"": weights})
    WRITERS[after_format](tmp_path / "after", {"": after})
    update = load_update(tmp_path / "after", tmp_path / "before", learning_rate=0.1)
    delta = {k: after[k] - weights[k] for k in weights}
    assert update.sha256() == Update(weights, delta=delta).sha256()


@pytest.mark.parametrize("name", WRITERS)
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_every_finite_float_survives(tmp_path, name, values):
    """Subnormals, negative zero and the largest floats, by their bits."""
    gradient = {"w": torch.tensor(values, dtype=torch.float32)}
    weights = {"w": torch.zeros(len(values))}
    WRITERS[name](tmp_path / "u", {"weights": weights, "gradient": gradient})
    read = load_update(tmp_path / "u").observed["w"]
    assert torch.equal(read.view(torch.int32), gradient["w"].view(torch.int32))


@pytest.mark.parametrize("name", WRITERS)
def test_a_real_gradient(tmp_path, name):
    folder = os.environ.get("GRADAUDIT_DATA")
    if not folder or not (Path(folder) / "mnist_3000.npz").exists():
        pytest.skip("GRADAUDIT_DATA does not name a folder with mnist_3000.npz")
    with np.load(Path(folder) / "mnist_3000.npz") as data:
        images = next(data[k] for k in data.files if data[k].ndim >= 2)[:8]
        labels = next(data[k] for k in data.files if data[k].ndim == 1)[:8]
    generator = torch.Generator().manual_seed(0)
    flat = torch.from_numpy(images.reshape(8, -1)).float() / 255
    model = torch.nn.Linear(flat.shape[1], 10)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    targets = torch.from_numpy(labels.astype(np.int64))
    torch.nn.functional.cross_entropy(model(flat), targets).backward()
    gradient = {k: p.grad for k, p in model.named_parameters() if p.grad is not None}
    weights = {k: p.detach() for k, p in model.named_parameters()}
    WRITERS[name](tmp_path / "u", {"weights": weights, "gradient": gradient})
    assert load_update(tmp_path / "u").sha256() == Update(weights, gradient).sha256()
