"""SPEAR++, Figure 1: all images of one class of a large batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradaudit.budget import Budget, Control
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.pictures import draw_rows
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import Client, attack, cell, mean
from gradaudit.experiments.spear_figure11 import originals, pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spearpp-figure1"
TITLE = "All images of one class of a large batch"
SOURCE = "SPEAR++ (arXiv 2510.24200), Figure 1"
DIFFERS = (
    "The paper shows the cars of a batch of b = 210 at m = 4000 that SPEAR++ reconstructed; here "
    "the attack is `auto`, and the smaller scales have a smaller batch. The class is number 1, "
    "CIFAR-10's cars."
)
HEAD = ("b", "m", "images of the class", "found", "exact", "PSNR (mean)", "PSNR (lowest)")
CLASS = 1
# Of the audit, by scale.
SECONDS = (30.0, 300.0, 3600.0)


def units(scale: Scale) -> list[dict[str, Any]]:
    """One batch."""
    batch_size, width = scale.pick((65, 1000), (150, 2000), (210, 4000))
    return [{"batch_size": batch_size, "width": width, "seed": scale.seed}]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Audit the batch; a row an image of the class, found and original."""
    source = scale.source("CIFAR-10")
    client = Client(source, unit["batch_size"], unit["seed"], width=unit["width"])
    model, update, truth = client.observe()
    limited = control.fresh(Budget(seconds=scale.pick(*SECONDS)))
    result = attack(model, update, truth, "auto", seed=unit["seed"], control=limited)
    rows = originals(truth)
    if result.records is not None:
        rows = pictures(result.records, truth) + rows
    about = {**unit, "data": shown(source), "recovered": result.records_recovered}
    return [{**about, **row} for row in rows if truth.labels[row["record"]] == CLASS]


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """How close the images of the class came."""
    if not rows:
        return [HEAD]
    found = [row for row in rows if row["image"] == "found"]
    lowest = min((float(row["psnr"]) for row in found), default=None)
    line = (
        str(rows[0]["batch_size"]),
        str(rows[0]["width"]),
        str(len(rows) - len(found)),
        str(len(found)),
        str(sum(bool(row["exact"]) for row in found)),
        cell(mean(found, "psnr"), ".1f"),
        cell(lowest, ".1f"),
    )
    return [HEAD, line]


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Reconstructions above originals."""
    found = {int(row["record"]): row for row in rows if row["image"] == "found"}
    true = [row for row in rows if row["image"] == "original"]
    if not true:
        figure.text(0.5, 0.5, "no image of the class was in the batch", ha="center")
        return
    images = [found.get(int(row["record"])) for row in true]
    draw_rows(
        figure,
        {
            "found": [
                (row["picture"], f"{float(row['psnr']):.0f} dB") if row else ("", "none")
                for row in images
            ],
            "original": [(row["picture"], "") for row in true],
        },
    )
