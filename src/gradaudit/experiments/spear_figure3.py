"""SPEAR, Figure 3: how often exhaustive sampling fails, by Lemma 5.3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from gradaudit.budget import Control
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale
from gradaudit.theory import failure_probability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-figure3"
TITLE = "Bound on the probability that exhaustive sampling fails"
SOURCE = "SPEAR (arXiv 2403.03945), Figure 3, Lemma 5.3"
DIFFERS = (
    "Formulas alone, at the filter's false rejection of 1e-5 a direction. The paper's figure shows "
    "the upper bound; neither is proven to be one, and `spear-figure8` counts failures above it "
    "where the batch is small (docs/theory.md)."
)
HEAD = ("b", "m", "upper", "approximate")
BOUNDS: dict[Literal["upper", "approximate"], str] = {"upper": "-", "approximate": ":"}
WIDTHS = (50, 100, 200, 400)
# The figure has every size up to the largest, the table these.
LARGEST, IN_TABLE = 200, (4, 8, 12, 20, 32, 50, 80, 128, 200)


def units(scale: Scale) -> list[dict[str, Any]]:
    """A width each; the same at every scale."""
    return [{"width": width} for width in WIDTHS]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Both formulas at every batch size up to the width."""
    return [
        {
            **unit,
            "batch_size": size,
            **{bound: failure_probability(size, unit["width"], bound=bound) for bound in BOUNDS},
        }
        for size in range(2, min(unit["width"], LARGEST) + 1)
    ]


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """Some batch sizes of the figure."""
    return [
        HEAD,
        *(
            (
                str(row["batch_size"]),
                str(row["width"]),
                f"{row['upper']:.2g}",
                f"{row['approximate']:.2g}",
            )
            for row in rows
            if row["batch_size"] in IN_TABLE
        ),
    ]


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Probability against the batch size, a colour for each width."""
    axis = figure.subplots()
    for number, width in enumerate(dict.fromkeys(row["width"] for row in rows)):
        own = [row for row in rows if row["width"] == width]
        sizes = [row["batch_size"] for row in own]
        for bound, style in BOUNDS.items():
            label = f"m = {width}, {bound}"
            axis.plot(sizes, [row[bound] for row in own], style, color=f"C{number}", label=label)
    axis.set(xscale="log", yscale="log", xlabel="batch size b", ylabel="probability of failure")
    axis.set_ylim(1e-6, 2)
    axis.set_xticks((2, 5, 10, 20, 50, 100, 200), ("2", "5", "10", "20", "50", "100", "200"))
    axis.grid(alpha=0.2)
    axis.legend(fontsize="small", ncols=2, loc="lower right")
