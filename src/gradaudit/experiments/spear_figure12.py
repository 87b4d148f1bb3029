"""SPEAR, Figure 12: what a batch looks like of which some directions are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from gradaudit.budget import Control
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.pictures import draw_rows
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import Client, cell, compared_with, mean
from gradaudit.experiments.spear_figure11 import originals, pictures
from gradaudit.experiments.spear_search import first_layer, search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-figure12"
TITLE = "A batch that was not reconstructed perfectly"
SOURCE = "SPEAR (arXiv 2403.03945), Figure 12, appendix E"
DIFFERS = (
    "The paper shows the one batch of 100 that failed after its whole budget, with 2 of 20 "
    "directions wrong and a mean PSNR of 91.2 dB. Here sampling stops as soon as the candidates "
    "span a whole batch, and the first batch that is wrong then is shown: a search that would go "
    "on to the right one."
)
HEAD = ("batch", "b", "submatrices", "records right", "PSNR (mean)", "PSNR (lowest)")
# Batches tried until one is wrong.
MOST_BATCHES = 20


def units(scale: Scale) -> list[dict[str, Any]]:
    """One picture."""
    return [{"batch_size": scale.pick(14, 16, 20), "seed": scale.seed}]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Search batch after batch; the pictures of the first that is wrong, if any is."""
    source = scale.source("Tiny-ImageNet")
    size = unit["batch_size"]
    for batch in range(unit["seed"], unit["seed"] + MOST_BATCHES):
        if control.stop_reason() is not None:
            break
        _, update, truth = Client(source, size, batch).observe()
        generator = torch.Generator().manual_seed(batch)
        choice = next(search(first_layer(update, generator), generator, control), None)
        if choice is None or choice.second_stage is None:
            continue
        compared = compared_with(choice.second_stage, truth)
        if not compared.exact_batch:
            rows = pictures(choice.second_stage, truth) + originals(truth)
            about = {"batch": batch, "submatrices": choice.submatrices, "data": shown(source)}
            return [{**unit, **about, **row} for row in rows]
    return []


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """How much of the batch is right all the same."""
    found = [row for row in rows if row["image"] == "found"]
    if not found:
        return [HEAD]
    right = sum(bool(row["exact"]) for row in found)
    lowest = min(float(row["psnr"]) for row in found)
    line = (
        str(found[0]["batch"]),
        str(found[0]["batch_size"]),
        f"{found[0]['submatrices']:,}",
        f"{right} of {len(found)}",
        cell(mean(found, "psnr"), ".1f"),
        cell(lowest, ".1f"),
    )
    return [HEAD, line]


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Reconstructions above originals, the worst first."""
    found = sorted((r for r in rows if r["image"] == "found"), key=lambda r: float(r["psnr"]))
    true = {int(r["record"]): r for r in rows if r["image"] == "original"}
    if not found:
        figure.text(0.5, 0.5, "every batch was reconstructed perfectly", ha="center")
        return
    draw_rows(
        figure,
        {
            "found": [(r["picture"], f"{float(r['psnr']):.0f} dB") for r in found],
            "original": [(true[int(r["record"])]["picture"], "") for r in found],
        },
    )
