"""SPEAR, Table 2: batches of a single class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradaudit.budget import Control
from gradaudit.experiments import spear_table1
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-table2"
TITLE = "Reconstruction quality of batches of one class"
SOURCE = "SPEAR (arXiv 2403.03945), Table 2, appendix D.1"
DIFFERS = spear_table1.DIFFERS
PAPER: dict[str, tuple[str, ...]] = {
    "Tiny-ImageNet": ("127.7", "0.999717", "4.80e-06", "1.04e-04", "98%")
}


def units(scale: Scale) -> list[dict[str, Any]]:
    """One audit each."""
    return [unit for unit in spear_table1.units(scale) if unit["dataset"] in PAPER]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Audit one batch and compare it with the truth."""
    return spear_table1.audited(unit, scale, control, one_class=True)


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """Paper and ours."""
    return spear_table1.compared(rows, PAPER)


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """The PSNR of every batch."""
    spear_table1.drawn(rows, PAPER, figure)
