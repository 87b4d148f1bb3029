"""Small audits of every kind, run as a process of its own; prints the digest of each result.

``python every_attack.py THREADS [NAME ...]``
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

import gradaudit as ga
from gradaudit.clients import FedAvg, FedSGD
from gradaudit.gradient_matching import DLG, IDLG, INVERTING_GRADIENTS, Knowledge
from gradaudit.models import lenet, mlp

SHAPE = (1, 8, 8)
Case = Callable[[], ga.AuditResult]


def drawn(number: int, features: int = 64, *, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(number, features, generator=generator, dtype=torch.float64)


def linear(
    number: int,
    inputs: Tensor | None = None,
    *,
    width: int = 120,
    dtype: str = "float64",
    **options,
) -> Case:
    """An audit of a batch through two hidden layers."""

    def run() -> ga.AuditResult:
        records = drawn(number) if inputs is None else inputs
        network = mlp(records.shape[1], [width, 60], 4, seed=2, dtype=dtype)
        client = FedSGD(network, dtype=dtype)
        update, _ = client.update(records, torch.arange(number) % 4)
        return ga.audit(update, seed=3, **options)

    return run


def noisy() -> ga.AuditResult:
    client = FedSGD(mlp(80, [150, 40], 4, seed=2, dtype=torch.float64), seed=5)
    exact, _ = client.update(drawn(4, 80), [0, 1, 2, 3])
    level = 1e-3 * float(exact.gradient["fc1.weight"].square().mean().sqrt())
    generator = torch.Generator().manual_seed(8)
    sent = {
        name: g + level * torch.randn(g.shape, generator=generator, dtype=g.dtype)
        for name, g in exact.gradient.items()
    }
    return ga.audit(ga.Update(exact.weights, sent, noise=level), seed=3)


def trained() -> ga.AuditResult:
    training = ga.LocalTraining(0.01, epochs=2, batch_size=2, momentum=0.9)
    client = FedAvg(mlp(40, [150, 30], 3, seed=1, dtype="float64"), training=training)
    update, _ = client.update(drawn(4, 40), [0, 1, 2, 0])
    return ga.audit(update, seed=3)


def convolutional(attack: str, number: int = 1, **options) -> Case:
    """An audit of images through a network of convolutions."""

    def run() -> ga.AuditResult:
        model = lenet(input_shape=SHAPE, num_classes=4, seed=4, dtype="float64")
        images = torch.sigmoid(drawn(number)).reshape(number, *SHAPE)
        update, _ = FedSGD(model).update(images, [2, 1][:number], ga.Preprocessing(SHAPE))
        return ga.audit(update, model=model, attack=attack, seed=3, **options)

    return run


CASES: dict[str, Case] = {
    "auto": linear(6),
    "auto, float32": linear(6, dtype="float32"),
    # Large enough for products to be shared among threads.
    "auto, wide": linear(20, drawn(20, 600), width=400),
    "closed_form": linear(1, attack="closed_form"),
    "halfspace": linear(12, attack="halfspace"),
    "spear": linear(6, attack="spear"),
    "spear++": linear(6, attack="spear++"),
    "peeling": linear(8, drawn(8).abs(), attack="peeling"),
    "cocktail-party": linear(2, drawn(2, 24), attack="cocktail-party"),
    # More records than the search completes, so that what is proven of single ones is there.
    "in parts": linear(28, drawn(28).abs(), attack="spear", budget=ga.Budget(None, 2_000)),
    "noisy": noisy,
    "local training": trained,
    "rgap": convolutional("rgap"),
    "dlg": convolutional("dlg", method=replace(DLG, iterations=40, restarts=2)),
    "idlg": convolutional("idlg", method=replace(IDLG, iterations=40, restarts=2)),
    "inverting-gradients": convolutional(
        "inverting-gradients",
        2,
        method=replace(INVERTING_GRADIENTS, iterations=10, restarts=2),
        knowledge=Knowledge(labels=(1, 2)),
    ),
}


def digest(result: ga.AuditResult) -> str:
    """Of the arrays' bytes and of all that the result says, but for times."""
    value = result.to_json()
    del value["created"]
    value["search"]["seconds"] = sorted(value["search"]["seconds"])
    whole = hashlib.sha256(json.dumps(value).encode())
    for array in (result.records, result.activation_gradients, result.approximate_records):
        whole.update(b"none" if array is None else array.contiguous().numpy().tobytes())
    return whole.hexdigest()


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    found = {}
    for name in sys.argv[2:] or CASES:
        result = CASES[name]()
        found[name] = [digest(result), result.status.value, result.search.hurried]
    print(json.dumps(found))
