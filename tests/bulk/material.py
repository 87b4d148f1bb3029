"""Captured updates that are audited in a moment: one record each, of a small network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from gradaudit.clients import FedSGD
from gradaudit.models import mlp
from gradaudit.update import Update

FEATURES, WIDTH, CLASSES = 6, 16, 3
# What differs between two runs that found the same.
TIMES = ("created", "search")


def make_update(seed: int = 0, **client: object) -> Update:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(1, FEATURES, generator=generator, dtype=torch.float64)
    labels = torch.randint(CLASSES, (1,), generator=generator)
    network = mlp(FEATURES, [WIDTH], CLASSES, generator=generator)
    return FedSGD(network, **{"dtype": "float64", **client}).update(inputs, labels)[0]


def capture(folder: Path, names: list[str], **client: object) -> Path:
    """Write an update, with a seed of its own, under each name."""
    for seed, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        make_update(seed, **client).save(path)
    return folder


def findings(out: Path) -> dict[str, Any]:
    """What is in a folder's results, but for the times."""
    found = {}
    for path in sorted((out / "results").glob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        attack = value["search"]["attack"]
        found[path.name] = {k: v for k, v in value.items() if k not in TIMES} | {"attack": attack}
    return found
