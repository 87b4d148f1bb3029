"""Small files of every kind that are read: what the broken ones are made from."""

from __future__ import annotations

import io
import json
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save as save_safetensors

from gradaudit.preprocessing import Column, Preprocessing
from gradaudit.truth import Truth
from gradaudit.update import LocalTraining, Update

WEIGHTS = {"fc.weight": torch.arange(6.0).reshape(3, 2) - 2, "fc.bias": torch.ones(3)}
GRADIENT = {"fc.weight": torch.ones(3, 2), "fc.bias": -torch.ones(3)}
FLAT = {f"weights/{k}": t for k, t in WEIGHTS.items()}
FLAT |= {f"gradient/{k}": t for k, t in GRADIENT.items()}
TABLE = Preprocessing(columns=(Column("age", (), 2.0, 3.0), Column("job", ("a", "b"))))
PICTURE = Preprocessing(image_shape=(1, 1, 2), mean=(0.5,), std=(0.25,), class_names=("x", "y"))

# A pickle that makes this folder when it is loaded.
RAN = Path(tempfile.gettempdir()) / f"gradaudit-fuzz-ran-{os.getuid()}"


class _Attack:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(RAN),)


ATTACKS = tuple(pickle.dumps(_Attack(), protocol=protocol) for protocol in (0, 2, 4))


def _saved(value: Update | Truth) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        value.save(Path(folder) / "u")
        return (Path(folder) / "u").read_bytes()


def safetensors_files() -> tuple[bytes, ...]:
    """Updates in this package's layout, and in plain ones."""
    step = LocalTraining(0.1, epochs=2, batch_size=3)
    own = Update(WEIGHTS, GRADIENT, preprocessing=PICTURE)
    trained = Update(WEIGHTS, delta=GRADIENT, step=step, noise=0.5)
    return _saved(own), _saved(trained), save_safetensors(FLAT), save_safetensors(WEIGHTS)


def torch_files() -> tuple[bytes, ...]:
    """Updates as `torch.save` writes them."""
    tied = torch.arange(12.0)
    values: tuple[object, ...] = (
        {"weights": WEIGHTS, "gradient": GRADIENT},
        FLAT,
        list(GRADIENT.values()),
        {"weights": {"a.weight": tied[:6].view(2, 3), "b.weight": tied[6:].view(3, 2).t()}}
        | {"gradient": {"a.weight": torch.zeros(1).expand(2, 3)}, "epoch": 3},
    )
    files = []
    for value in values:
        stream = io.BytesIO()
        torch.save(value, stream)
        files.append(stream.getvalue())
    return tuple(files)


def npz_files() -> tuple[bytes, ...]:
    """Updates as NumPy writes them."""
    arrays = {name: tensor.numpy() for name, tensor in FLAT.items()}
    foreign = {k: np.asfortranarray(a.astype(">f8")) for k, a in arrays.items()}
    files = []
    for write, values in (
        (np.savez, arrays),
        (np.savez_compressed, arrays),
        (np.savez, foreign),
        (np.savez, {f"arr_{i}": a for i, a in enumerate(arrays.values())}),
    ):
        stream = io.BytesIO()
        write(stream, **values)
        files.append(stream.getvalue())
    return tuple(files)


def truth_files() -> tuple[bytes, ...]:
    """What simulated clients really used."""
    inputs = torch.arange(6.0).reshape(3, 2)
    labels = torch.tensor([0, 1, 1])
    table = Truth(torch.ones(2, 3), labels[:2], TABLE)
    return _saved(Truth(inputs, labels)), _saved(Truth(inputs, labels, PICTURE)), _saved(table)


def data_npz_files() -> tuple[bytes, ...]:
    """Images and features to simulate clients with."""
    labels = np.array([0, 1, 2])
    files = []
    for arrays in (
        {"images": np.arange(12, dtype=np.uint8).reshape(3, 2, 2), "labels": labels},
        {"features": np.arange(6.0).reshape(3, 2), "labels": labels},
    ):
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        files.append(stream.getvalue())
    return tuple(files)


def image_files() -> tuple[bytes, ...]:
    """One small picture in every format that a folder may hold."""
    from PIL import Image

    pixels = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(8, 6, 3)
    files = []
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"):
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, kind)
        files.append(stream.getvalue())
    return tuple(files)


def header_of(content: bytes) -> dict[str, object]:
    """The header of a safetensors file."""
    return dict(json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]))
