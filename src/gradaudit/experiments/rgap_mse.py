"""R-GAP: the error of the recursion against that of DLG."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gradaudit.auditing import audit
from gradaudit.budget import Budget, Control
from gradaudit.clients import FedSGD
from gradaudit.data import load_source
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import quality
from gradaudit.gradient_matching import Knowledge
from gradaudit.models import cnn6, lenet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rgap-mse"
TITLE = "R-GAP against DLG: mean square error of one image"
SOURCE = "R-GAP (arXiv 2010.07733), table of MSE"
DIFFERS = (
    "LeNet* is LeNet with leaky ReLU instead of the sigmoid. Single logit, logistic loss, no "
    "biases; networks and gradients are float64, and every image has weights of its own. The "
    "audit's `rgap` refines what the recursion gives, which the paper does not. DLG is told the "
    "label and stopped by time (see the rows), and has a line search and restarts of ours. The "
    "error is the median over images, in the network's inputs as `gradaudit.metrics` measures it; "
    "the paper's are means. The paper's CNN6 numbers were not at hand."
)
HEAD = ("network", "attack", "paper", "ours: images", "reconstructed", "MSE (median)", "seconds")
LOSS = "binary_cross_entropy"
ATTACKS = ("rgap", "dlg")
NETWORKS = {"LeNet": "MNIST", "LeNet*": "MNIST", "CNN6": "CIFAR-10"}
PAPER = {
    ("LeNet", "rgap"): "1.1e-04",
    ("LeNet", "dlg"): "3.7e-08",
    ("LeNet*", "rgap"): "1.5e-10",
    ("LeNet*", "dlg"): "5.2e-02",
}
# Of one audit, by scale.
SECONDS = (6.0, 60.0, 600.0)
# An exact reconstruction has an error of zero, which no logarithmic axis has.
LEAST = 1e-32


def units(scale: Scale) -> list[dict[str, Any]]:
    """One image, one attack each."""
    return [
        {"network": name, "attack": attack, "seed": seed}
        for name in NETWORKS
        for attack in ATTACKS
        for seed in scale.batches(3, 5, 10)
    ]


def network(name: str, shape: Sequence[int], seed: int) -> nn.Module:
    """One of the paper's networks for records of a shape.

    Args:
        name: A key of `NETWORKS`.
        shape: Channels, height and width.
        seed: Of its weights.
    """
    if name == "CNN6":
        return cnn6(shape, seed=seed, dtype=torch.float64)
    activation = "leaky_relu" if name == "LeNet*" else "sigmoid"
    return lenet(shape, activation=activation, seed=seed, dtype=torch.float64)


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Attack one image."""
    source = scale.source(NETWORKS[unit["network"]])
    batch = load_source(source).batch(1, seed=unit["seed"])
    label = unit["seed"] % 2
    model = network(unit["network"], batch.inputs[0].shape, unit["seed"])
    client = FedSGD(model, loss=LOSS)
    update, truth = client.update(batch.inputs, torch.tensor([label]), batch.preprocessing)
    result = audit(
        update,
        model=model,
        loss=LOSS,
        attack=unit["attack"],
        knowledge=Knowledge(1, (label,)) if unit["attack"] == "dlg" else None,
        seed=unit["seed"],
        control=control.fresh(Budget(seconds=scale.pick(*SECONDS))),
    )
    row = quality(result, truth)
    return [
        {
            **unit,
            "data": shown(source),
            "status": result.status.value,
            **{name: row.get(name) for name in ("exact", "mse", "psnr", "seconds")},
        }
    ]


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """The paper's error beside ours."""
    lines: list[Sequence[str]] = [HEAD]
    for name in NETWORKS:
        for attack in ATTACKS:
            own = [row for row in rows if (row["network"], row["attack"]) == (name, attack)]
            if not own:
                continue
            errors = _errors(own)
            lines.append(
                (
                    name,
                    attack,
                    PAPER.get((name, attack), "not known"),
                    str(len(own)),
                    str(len(errors)),
                    f"{statistics.median(errors):.1e}" if errors else "none",
                    f"{statistics.median(row['seconds'] for row in own):.2f}",
                )
            )
    return lines


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """The error of every image."""
    axis = figure.subplots()
    names = [name for name in NETWORKS if any(row["network"] == name for row in rows)]
    colours = ("#0072B2", "#D55E00")
    for shift, attack, colour, marker in zip((-0.15, 0.15), ATTACKS, colours, "os", strict=True):
        points = [
            (place + shift, max(error, LEAST))
            for place, name in enumerate(names)
            for error in _errors([r for r in rows if (r["network"], r["attack"]) == (name, attack)])
        ]
        axis.plot(
            [x for x, _ in points], [y for _, y in points], marker, color=colour, label=attack
        )
        bars = [
            (place + shift, float(PAPER[name, attack]))
            for place, name in enumerate(names)
            if (name, attack) in PAPER
        ]
        axis.plot(
            [x for x, _ in bars],
            [y for _, y in bars],
            "_",
            color=colour,
            markersize=24,
            markeredgewidth=2.5,
            label=f"{attack}, paper",
        )
    axis.set_yscale("log")
    axis.set_xticks(range(len(names)), names)
    axis.set_xlim(-0.5, len(names) - 0.5)
    axis.set_ylabel("mean square error of an image")
    axis.grid(axis="y", alpha=0.3)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=4)


def _errors(rows: Sequence[Row]) -> list[float]:
    return [float(row["mse"]) for row in rows if row["mse"] is not None]
