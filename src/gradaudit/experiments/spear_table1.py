"""SPEAR, Table 1: how well whole batches are reconstructed, by data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradaudit.budget import Control
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import FILES, Scale, shown
from gradaudit.experiments.spear_client import Client, attack, cell, mean, quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-table1"
TITLE = "Reconstruction quality by data set"
SOURCE = "SPEAR (arXiv 2403.03945), Table 1"
DIFFERS = (
    "The paper averages 100 batches of 20 records. Submatrices alone (`spear`) take minutes at "
    "b = 20 on one core, so that the smaller scales give them smaller batches; `auto` has the "
    "paper's batch size at every scale. Metrics are means over the batches of which something was "
    "reconstructed; accuracy counts all."
)
HEAD = ("data", "attack", "b", "batches", "PSNR", "SSIM", "MSE", "LPIPS", "accuracy")
ATTACKS = ("auto", "spear")
PAPER: dict[str, tuple[str, ...]] = {
    "MNIST": ("99.1", "0.99998", "2.61e-06", "none", "99%"),
    "CIFAR-10": ("106.6", "0.99988", "1.29e-06", "1.16e-05", "99%"),
    "Tiny-ImageNet": ("110.7", "0.99971", "2.71e-05", "1.63e-04", "99%"),
}
BATCH_SIZE = 20


def units(scale: Scale) -> list[dict[str, Any]]:
    """One audit each."""
    smaller = scale.pick(12, 16, BATCH_SIZE)
    return [
        {
            "dataset": dataset,
            "attack": name,
            "batch_size": smaller if name == "spear" else BATCH_SIZE,
            "seed": seed,
        }
        for dataset in FILES
        for name in ATTACKS
        for seed in scale.batches(3, 20, 100)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Audit one batch and compare it with the truth."""
    return audited(unit, scale, control, one_class=False)


def audited(unit: Row, scale: Scale, control: Control, *, one_class: bool) -> list[dict[str, Any]]:
    """A row of either of the paper's tables."""
    source = scale.source(unit["dataset"])
    client = Client(source, unit["batch_size"], unit["seed"], one_class=one_class)
    model, update, truth = client.observe()
    result = attack(model, update, truth, unit["attack"], seed=unit["seed"], control=control)
    return [{**unit, "data": shown(source), **quality(result, truth)}]


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """Paper and ours, a data set at a time."""
    return compared(rows, PAPER)


def compared(rows: Sequence[Row], paper: Mapping[str, tuple[str, ...]]) -> list[Sequence[str]]:
    """The paper's line above ours, for every data set."""
    lines: list[Sequence[str]] = [HEAD]
    for dataset, printed in paper.items():
        lines.append((dataset, "paper", str(BATCH_SIZE), "100", *printed))
        for name in ATTACKS:
            own = [row for row in rows if (row["dataset"], row["attack"]) == (dataset, name)]
            if own:
                lines.append(_line(own))
    return lines


def _line(rows: Sequence[Row]) -> Sequence[str]:
    exact = sum(bool(row["exact"]) for row in rows)
    return (
        str(rows[0]["data"]),
        str(rows[0]["attack"]),
        str(rows[0]["batch_size"]),
        str(len(rows)),
        cell(mean(rows, "psnr"), ".1f"),
        cell(mean(rows, "ssim"), ".5f"),
        cell(mean(rows, "mse"), ".2e"),
        cell(mean(rows, "lpips"), ".2e"),
        f"{exact / len(rows):.0%}",
    )


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """The PSNR of every batch, by data set and attack."""
    drawn(rows, PAPER, figure)


def drawn(rows: Sequence[Row], paper: dict[str, tuple[str, ...]], figure: Figure) -> None:
    """Ours beside the paper's mean, for every data set that there are rows of."""
    axis = figure.subplots()
    datasets = list(dict.fromkeys(str(row["dataset"]) for row in rows))
    for offset, (name, marker) in zip((-0.12, 0.12), zip(ATTACKS, "os", strict=True), strict=True):
        own = [row for row in rows if row["attack"] == name and row.get("psnr") is not None]
        axis.plot(
            [datasets.index(row["dataset"]) + offset for row in own],
            [row["psnr"] for row in own],
            marker,
            label=f"ours, {name}",
        )
    printed = [float(paper[name][0]) for name in datasets]
    axis.plot(
        range(len(datasets)),
        printed,
        "_",
        color="black",
        markersize=24,
        markeredgewidth=2,
        label="paper",
    )
    axis.set_xticks(range(len(datasets)), datasets)
    axis.set_xlim(-0.5, len(datasets) - 0.5)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("PSNR of a batch (dB)")
    axis.legend(loc="lower right")
