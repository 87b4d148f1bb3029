"""Updates of small networks on random records, which a real audit solves in a moment."""

from __future__ import annotations

from pathlib import Path

import torch

from gradaudit.clients import FedSGD
from gradaudit.models import mlp

FEATURES, WIDTH, CLASSES = 24, 80, 4


def save_update(
    folder: Path,
    batch_size: int = 3,
    *,
    features: int = FEATURES,
    width: int = WIDTH,
    seed: int = 5,
    **client: object,
) -> Path:
    """Write ``update.safetensors`` and ``truth.safetensors``; give the first's path."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(batch_size, features, generator=generator, dtype=torch.float64)
    labels = torch.randint(CLASSES, (batch_size,), generator=generator)
    network = mlp(features, [width, width], CLASSES, generator=generator)
    options = {"dtype": "float64", **client}
    update, truth = FedSGD(network, **options).update(inputs, labels)
    update.save(folder / "update.safetensors")
    truth.save(folder / "truth.safetensors")
    return folder / "update.safetensors"


def save_hard_update(folder: Path) -> Path:
    """An update whose batch no search finds in a minute: 26 records at width 200."""
    return save_update(folder, 26, features=100, width=200)
