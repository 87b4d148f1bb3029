"""SPEAR++, Table 2: Riemannian Adam against projected gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradaudit.budget import Control
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale
from gradaudit.experiments.spearpp_table import LARGE, SMALL, WHOLE, compared, draw_psnr
from gradaudit.experiments.spearpp_table1 import searched

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spearpp-table2"
TITLE = "SPEAR++ by optimiser"
SOURCE = "SPEAR++ (arXiv 2510.24200), Table 2"
DIFFERS = "As in spearpp-table1. Descents are on whitened rows, which the paper's are not."
VARIANTS = ("radam", "pgd")
PAPER = {
    ("radam", 20, 200): (120.98, 0.95),
    ("pgd", 20, 200): (41.53, 0.25),
    ("radam", 65, 1000): (125.18, 1.0),
    ("pgd", 65, 1000): (93.91, 0.93),
    ("radam", 210, 4000): (45.34, 0.07),
    ("pgd", 210, 4000): (88.36, 0.77),
}


def units(scale: Scale) -> list[dict[str, Any]]:
    """One search each."""
    return [
        {"variant": variant, "batch_size": batch_size, "width": width, "seed": seed}
        for batch_size, width in scale.pick(SMALL, LARGE, WHOLE)
        for variant in VARIANTS
        for seed in scale.batches(5, 5, 100)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Search one batch with one optimiser."""
    return searched(unit, scale, control, optimizer=unit["variant"])


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """Paper and ours, a setting and optimiser at a time."""
    return compared(rows, PAPER, "optimiser", {"exact": "accuracy"})


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """The PSNR of every batch."""
    draw_psnr(rows, PAPER, figure)
