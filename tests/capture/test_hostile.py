"""Damaged files of every format: an update or one line, whatever the bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from gradaudit.capture import load_update
from gradaudit.errors import InputError
from gradaudit.update import Update

WEIGHTS = {"fc.weight": torch.arange(6.0).reshape(3, 2) - 2, "fc.bias": torch.ones(3)}
GRADIENT = {"fc.weight": torch.ones(3, 2), "fc.bias": -torch.ones(3)}
FLAT = {f"weights/{k}": t for k, t in WEIGHTS.items()}
FLAT |= {f"gradient/{k}": t for k, t in GRADIENT.items()}


def _torch() -> bytes:
    stream = io.BytesIO()
    torch.save({"weights": WEIGHTS, "gradient": GRADIENT}, stream)
    return stream.getvalue()


def _numpy(write: Callable[..., None]) -> bytes:
    stream = io.BytesIO()
    write(stream, **{k: t.numpy() for k, t in FLAT.items()})
    return stream.getvalue()


def _own(tmp: Path) -> bytes:
    Update(WEIGHTS, GRADIENT).save(tmp)
    return tmp.read_bytes()


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return {
        "own": _own(tmp_path_factory.mktemp("own") / "u"),
        "safetensors": save(FLAT),
        "torch": _torch(),
        "npz": _numpy(np.savez),
        "npz_compressed": _numpy(np.savez_compressed),
    }


FORMATS = ("own", "safetensors", "torch", "npz", "npz_compressed")


@pytest.mark.parametrize("name", FORMATS)
def test_the_undamaged_file_is_an_update(valid, name, tmp_path):
    (tmp_path / "u").write_bytes(valid[name])
    assert load_update(tmp_path / "u").sha256() == Update(WEIGHTS, GRADIENT).sha256()


@pytest.mark.parametrize("name", FORMATS)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_flipped_and_cut_bytes(valid, name, tmp_path, data):
    content = bytearray(valid[name])
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    start = data.draw(st.just(0) | st.integers(0, len(content)))
    end = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    path = tmp_path / "u"
    path.write_bytes(content[start:end])
    text = ""
    try:
        update = load_update(path)
    except InputError as error:
        text = str(error)
    else:
        assert all(bool(t.isfinite().all()) for t in update.observed.values())
    assert text.isprintable()
    assert len(text) < 700


@pytest.mark.parametrize("name", FORMATS)
def test_every_truncation_is_refused_or_whole(valid, name, tmp_path):
    """At any length but the full one the file is damaged: nothing may be filled in."""
    path = tmp_path / "u"
    for length in range(0, len(valid[name]), 37):
        path.write_bytes(valid[name][:length])
        with pytest.raises(InputError):
            load_update(path)
