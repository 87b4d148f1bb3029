"""Attacks by optimisation, beside the exact ones: what they reconstruct, and what is proven of it.

    python benchmarks/gradient_matching.py [--only NAME ...] [--seeds N] [--seconds S] [--again]

Needs GRADAUDIT_DATA; a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from _cases import CIFAR, MNIST, UNIT, source
from _results import Results, parser, table
from matplotlib.figure import Figure
from torch import nn

import gradaudit as ga
from gradaudit.gradient_matching import METHODS, Knowledge

ONE, FOUR, TABLE1 = "one CIFAR-10 image, LeNet", "four CIFAR-10 images, LeNet", "Table 1"
FIGURE1, FEATURES = "SPEAR's Figure 1", "features behind convolutions"
LARGE = "batches too large to solve"
COLOUR, GREY = (3, 32, 32), (1, 28, 28)


@dataclass(frozen=True)
class Trial:
    """One attack on one client's update.

    Attributes:
        attack: As an audit calls it.
        network: What the row says of the network.
        model: Makes it from a seed.
        data: A file of the data folder, with options.
        batch_size: Records.
        loss: The client's.
        settings: Of the attack, other than its usual ones.
        labels_known: Whether the attacker knows the labels.
    """

    attack: str
    network: str
    model: Callable[[int], nn.Module]
    data: str
    batch_size: int
    loss: str = "cross_entropy"
    settings: dict[str, Any] = field(default_factory=dict)
    labels_known: bool = False

    @property
    def label(self) -> str:
        """What tells the row from others."""
        return f"{self.attack}, {self.network}"


def lenet(activation: str, init: str, shape: tuple[int, int, int], classes: int) -> Any:
    """A maker of LeNets; with biases where there are several classes, as DLG's."""

    def make(seed: int) -> nn.Module:
        return ga.models.lenet(
            shape,
            num_classes=classes,
            bias=classes > 1,
            activation=activation,
            init=init,
            seed=seed,
        )

    return make


def network(seed: int) -> nn.Module:
    """SPEAR's network at the width of its Figure 1."""
    return ga.models.mlp(3072, [200] * 5, 10, seed=seed)


def convolutional(seed: int) -> nn.Module:
    """A small VGG; with Kaiming's initialisation, records differ enough behind its convolutions."""
    return ga.models.vgg_small(COLOUR, num_classes=10, widths=(32, 64), init="kaiming", seed=seed)


CIFAR_UNIT, MNIST_UNIT = CIFAR + UNIT, MNIST + UNIT
LESS = {"restarts": 1}
SMOOTH = {"total_variation": 1e-3, "iterations": 1200}
UNIFORM, USUAL = "sigmoid, U(-0.5, 0.5)", "sigmoid, PyTorch's initialisation"
TRIALS: dict[str, tuple[Trial, ...]] = {
    FIGURE1: tuple(
        Trial(
            attack,
            "six layers of 200",
            network,
            CIFAR,
            20,
            labels_known=attack in METHODS,
        )
        for attack in ("auto", "inverting-gradients", "cocktail-party")
    ),
    ONE: (
        Trial(
            "dlg", UNIFORM, lenet("sigmoid", "uniform", COLOUR, 10), CIFAR_UNIT, 1, settings=LESS
        ),
        Trial(
            "idlg", UNIFORM, lenet("sigmoid", "uniform", COLOUR, 10), CIFAR_UNIT, 1, settings=LESS
        ),
        Trial(
            "inverting-gradients",
            USUAL,
            lenet("sigmoid", "pytorch", COLOUR, 10),
            CIFAR,
            1,
            settings=SMOOTH,
        ),
        Trial(
            "inverting-gradients",
            "ReLU, PyTorch's initialisation",
            lenet("relu", "pytorch", COLOUR, 10),
            CIFAR,
            1,
            settings=SMOOTH,
        ),
    ),
    FOUR: tuple(
        Trial(
            attack,
            text,
            lenet("sigmoid", init, COLOUR, 10),
            data,
            4,
            settings=settings,
            labels_known=True,
        )
        for attack, text, init, data, settings in (
            ("dlg", UNIFORM, "uniform", CIFAR_UNIT, LESS),
            ("inverting-gradients", USUAL, "pytorch", CIFAR, SMOOTH),
        )
    ),
    TABLE1: tuple(
        Trial(
            attack,
            f"{activation}, {words}",
            lenet(activation, init, GREY, 1),
            MNIST_UNIT,
            1,
            loss="binary_cross_entropy",
            settings=LESS if attack == "dlg" else {},
        )
        for activation in ("sigmoid", "leaky_relu")
        for init, words in (("uniform", "U(-0.5, 0.5)"), ("pytorch", "PyTorch's initialisation"))
        for attack in ("rgap", "dlg")
    ),
    LARGE: tuple(
        Trial("cocktail-party", f"six layers of 200, b = {size}", network, CIFAR, size)
        for size in (8, 50, 100)
    ),
    FEATURES: (
        Trial(
            "auto", "VGG-like of four convolutions, 4,096 features", convolutional, CIFAR_UNIT, 16
        ),
    ),
}
INTRODUCTION = """# Gradient matching and other attacks that prove little

Float32 gradients of the mean loss. Each row is an attack on one client a seed; PSNR and MSE, of
pixels in [0, 1], are those of the one-to-one matching with the true records, which the status does
not know. "recovered" is what the certificate proves from the update alone; all else are estimates,
however good they look. A residual is the relative norm of the gradient that a candidate leaves
unexplained (of the features, behind convolutions); that of four images with sigmoids is three in a
million, and the images are wrong. Time limits are in the JSON beside this page.

Table 1 is the setting of R-GAP's: LeNet at 28 x 28, a single logit, no biases; MNIST's odd digits
against the even ones. The paper has an MSE of 1.1e-4 for R-GAP and 3.7e-8 for DLG with sigmoids,
and calls the former "significantly lower", which it is not; on the network with the asterisk
(LeakyReLU, most likely) 1.5e-10 and 5.2e-2. Where R-GAP leaves a record's scale open, since two
multiples of it have the same gradient, errors are those at the best scale.

What was scaled down: one restart of L-BFGS instead of four, 1,200 iterations of Inverting Gradients
instead of 4,800 on LeNet, and the time limits; the machine did other work at the same time.
"""
HEAD = ("setting", "attack, network", "b", "seeds", "status", "PSNR (dB)", "MSE", "residual", "s")


def attack(trial: Trial, seed: int, seconds: float) -> tuple[dict[str, Any], list[np.ndarray]]:
    """One audit; what came of it, and the matched pairs of images, reconstruction first."""
    batch = source(trial.data).batch(trial.batch_size, seed=seed, dtype=torch.float32)
    labels = batch.labels % 2 if trial.loss == "binary_cross_entropy" else batch.labels
    model = trial.model(seed)
    update, truth = ga.clients.FedSGD(model, trial.loss).update(
        batch.inputs, labels, batch.preprocessing
    )
    options: dict[str, Any] = {}
    if trial.attack in METHODS:
        options["method"] = replace(METHODS[trial.attack], **trial.settings)
        known = tuple(sorted(labels.tolist())) if trial.labels_known else None
        options["knowledge"] = Knowledge(trial.batch_size, known)
    started = time.perf_counter()
    result = ga.audit(
        update,
        model=model,
        loss=trial.loss,
        attack=trial.attack,
        seed=seed,
        budget=ga.Budget(seconds=seconds),
        **options,
    )
    found = result.records if result.records is not None else result.approximate_records
    row: dict[str, Any] = {
        "label": trial.label,
        "batch_size": trial.batch_size,
        "seed": seed,
        "limit_seconds": seconds,
        "status": result.status.value,
        "cause": result.cause,
        "certified": result.records_recovered,
        "residual": result.search.counters.get("relative residual"),
    }
    if result.layer is not None and found is not None and found.shape[1] != truth.inputs[0].numel():
        inverted = ga.invert_features(
            model,
            result.layer,
            found.float(),
            COLOUR,
            steps=500,
            preprocessing=batch.preprocessing,
            seed=seed,
            control=ga.Control(ga.Budget(seconds=seconds)),
        )
        found = inverted.records.flatten(1).double()
        row["residual"] = float(inverted.residuals.median())
    row["seconds"] = round(time.perf_counter() - started, 1)
    if found is None:
        return row, []
    factor_open = not result.scale_identified
    compared = ga.metrics.compare(found, truth, up_to_scale=factor_open, structural=False)
    row["psnr"] = [round(pair.psnr, 2) for pair in compared.pairs]
    if trial.attack == "cocktail-party":
        row["stable"] = [result.approximate_evidence[p.record].stable for p in compared.pairs]
    pictures, originals = (
        batch.preprocessing.to_images(records.numpy()).clip(0, 1)
        for records in (found, truth.inputs)
    )
    return row, [
        np.stack([pictures[pair.record], originals[pair.truth]]) for pair in compared.pairs
    ]


def lines(results: Results) -> list[list[str]]:
    """The table's rows."""
    cells = []
    for section, entry in results.entries.items():
        for label in dict.fromkeys(row["label"] for row in entry["rows"]):
            rows = [row for row in entry["rows"] if row["label"] == label]
            psnr = [value for row in rows for value in row.get("psnr", [])]
            mse = [10 ** (-value / 10) for value in psnr]
            residuals = [row["residual"] for row in rows if row["residual"] is not None]
            statuses = [row["status"].replace("_", " ") for row in rows]
            cells.append(
                [
                    section,
                    label,
                    str(rows[0]["batch_size"]),
                    str(len(rows)),
                    ", ".join(f"{statuses.count(s)} {s}" for s in dict.fromkeys(statuses)),
                    f"{statistics.median(psnr):.1f} ({min(psnr):.1f} to {max(psnr):.1f})"
                    if psnr
                    else "",
                    f"{statistics.median(mse):.1e}" if mse else "",
                    f"{statistics.median(residuals):.1e}" if residuals else "",
                    f"{statistics.median(row['seconds'] for row in rows):.0f}",
                ]
            )
    return cells


def agreement(results: Results) -> list[str]:
    """A table of how good the estimates are that a second search agrees on, and the others."""
    cells = []
    for entry in results.entries.values():
        for row in entry["rows"]:
            if "stable" in row:
                groups: dict[bool, list[float]] = {True: [], False: []}
                for value, stable in zip(row["psnr"], row["stable"], strict=True):
                    groups[stable].append(value)
                counts = [str(len(groups[stable])) for stable in (True, False)]
                medians = [
                    f"{statistics.median(groups[stable]):.1f}" if groups[stable] else ""
                    for stable in (True, False)
                ]
                cells.append([row["label"], str(row["seed"]), *counts, *medians])
    head = ("attack, network", "seed", "agreed", "not", "PSNR of agreed (dB)", "PSNR of others")
    return ["", "## The Cocktail Party attack's estimates", "", *table(head, cells)]


def page(results: Results) -> list[str]:
    """All tables and the picture."""
    tables = [*table(HEAD, lines(results)), *agreement(results)]
    return [*INTRODUCTION.splitlines(), "", *tables, "", f"![SPEAR's Figure 1]({FIGURE_NAME})"]


def draw(images: dict[str, list[np.ndarray]], file: str) -> None:
    """Originals, and what each attack made of them, eight a row."""
    first = next(iter(images.values()))
    shown = [("original", [pair[1] for pair in first[:8]])]
    shown += [(name, [pair[0] for pair in pairs[:8]]) for name, pairs in images.items()]
    figure = Figure(figsize=(8, 1.1 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), 8, squeeze=False)
    for line, (name, pictures) in zip(axes, shown, strict=True):
        for axis in line:
            axis.set_axis_off()
        for axis, picture in zip(line, pictures, strict=False):
            axis.imshow(picture)
        line[0].set_title(name, fontsize=8, loc="left")
    figure.savefig(file, dpi=150)


def main() -> None:
    """Run what is missing, and write the results after each attack."""
    options = parser(__doc__, seconds=120.0)
    options.add_argument("--only", nargs="+", default=list(TRIALS), choices=list(TRIALS))
    options.add_argument("--seeds", type=int, default=2)
    chosen = options.parse_args()
    results = Results(chosen.out / "gradient_matching.json", list(TRIALS), again=chosen.again)
    for section in chosen.only:
        results.begin(section)
        pictures: dict[str, list[np.ndarray]] = {}
        for trial in TRIALS[section]:
            for seed in range(chosen.seeds):
                rows = results.rows(section)
                if any(row["label"] == trial.label and row["seed"] == seed for row in rows):
                    continue
                row, images = attack(trial, seed, chosen.seconds)
                results.add(section, row)
                if seed == 0 and images:
                    pictures[trial.attack] = images
                results.page(page(results))
        if section == FIGURE1 and len(pictures) == len(TRIALS[section]):
            draw(pictures, str(chosen.out / FIGURE_NAME))
    results.page(page(results))


FIGURE_NAME = "gradient_matching.png"

if __name__ == "__main__":
    main()
