"""SPEAR++, Table 4: batches behind local training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradaudit.budget import Budget, Control
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale
from gradaudit.experiments.spear_client import Client
from gradaudit.experiments.spearpp_table import compared, draw_psnr
from gradaudit.experiments.spearpp_table3 import SECONDS, audited
from gradaudit.update import LocalTraining

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spearpp-table4"
TITLE = "Batches behind local training (FedAvg)"
SOURCE = "SPEAR++ (arXiv 2510.24200), Table 4"
DIFFERS = (
    "The attack is `auto`, which judges only neurons that training cannot have switched "
    "(docs/local-training.md). The paper counts accuracy in a way not known to us: ours is the "
    "share of records that the audit certifies, without the truth."
)
LEARNING_RATE = 1e-2
# Epochs, and the batch size of a local step.
TRAININGS = {"E = 3, batches of 5": (3, 5), "E = 15, batches of 30": (15, 30)}
SHORT, LONG = TRAININGS
PAPER = {(SHORT, 20, 200): (67.81, 0.75), (LONG, 150, 4000): (63.71, 0.92)}


def units(scale: Scale) -> list[dict[str, Any]]:
    """One audit each."""
    settings = scale.pick(
        ((SHORT, 20, 200), (LONG, 65, 1000)), (*PAPER, (LONG, 65, 1000)), tuple(PAPER)
    )
    return [
        {"variant": variant, "batch_size": batch_size, "width": width, "seed": seed}
        for variant, batch_size, width in settings
        for seed in scale.batches(3, 3, 100)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Audit one batch."""
    epochs, size = TRAININGS[unit["variant"]]
    training = LocalTraining(learning_rate=LEARNING_RATE, epochs=epochs, batch_size=size)
    source = scale.source("CIFAR-10")
    client = Client(
        source, unit["batch_size"], unit["seed"], width=unit["width"], training=training
    )
    return audited(unit, source, client, control.fresh(Budget(seconds=scale.pick(*SECONDS))))


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """Paper and ours."""
    return compared(rows, PAPER, "local training", {"certified_share": "records certified"})


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """The PSNR of every batch."""
    draw_psnr(rows, PAPER, figure)
