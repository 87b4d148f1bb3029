"""R-GAP: the rank analysis of its networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from gradaudit.budget import Control
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale
from gradaudit.models import cnn6, cnn6_d, lenet, resnet18
from gradaudit.rank import rank_analysis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rgap-rank"
TITLE = "Rank analysis of R-GAP's networks"
SOURCE = "R-GAP (arXiv 2010.07733), section 4"
DIFFERS = (
    "The paper's index counts all equations and adds up what earlier layers have to spare; the "
    "open dimensions are ours: unknowns of each layer less its independent equations, counted "
    "exactly. The paper's own numbers were not at hand. From sizes alone, so no data are used."
)
HEAD = (
    "network",
    "layers",
    "layers with open dimensions",
    "open dimensions",
    "lowest index of the paper",
    "worst layer",
)
CIFAR, MNIST = (3, 32, 32), (1, 28, 28)


def _resnet(*without: int) -> Callable[[], nn.Module]:
    return lambda: resnet18(CIFAR, without_skip=without).eval()


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, int, int]]] = {
    "LeNet": (lenet, MNIST),
    "CNN6": (cnn6, CIFAR),
    "CNN6-d": (cnn6_d, CIFAR),
    "ResNet-18": (_resnet(), CIFAR),
    **{f"ResNet-18, no skip {block}": (_resnet(block), CIFAR) for block in range(1, 9)},
}


def units(scale: Scale) -> list[dict[str, Any]]:
    """One network each, the same at every scale."""
    return [{"network": name} for name in NETWORKS]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Analyse a network; a row a layer."""
    make, shape = NETWORKS[unit["network"]]
    return [
        {
            **unit,
            "number": number,
            "layer": row.name,
            "unknowns": row.unknowns,
            "exact_rank": row.exact_rank,
            "open": row.deficit,
            "index": row.rank_analysis_index,
        }
        for number, row in enumerate(rank_analysis(make(), shape).layers)
    ]


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """A line a network."""
    lines: list[Sequence[str]] = [HEAD]
    for name in dict.fromkeys(str(row["network"]) for row in rows):
        own = [row for row in rows if row["network"] == name]
        worst = max(own, key=lambda row: int(row["open"]))
        lines.append(
            (
                name,
                str(len(own)),
                str(sum(row["open"] > 0 for row in own)),
                f"{sum(row['open'] for row in own):,}",
                f"{min(row['index'] for row in own):,}",
                f"{worst['layer']} ({worst['open']:,})" if worst["open"] else "none",
            )
        )
    return lines


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """The share of each layer's unknowns that its equations leave open."""
    names = list(dict.fromkeys(str(row["network"]) for row in rows))
    depth = max(int(row["number"]) for row in rows) + 1
    shares = [[float("nan")] * depth for _ in names]
    for row in rows:
        shares[names.index(row["network"])][row["number"]] = row["open"] / row["unknowns"]
    axis = figure.subplots()
    image = axis.imshow(shares, aspect="auto", cmap="viridis", vmin=0, vmax=1)
    axis.set_yticks(range(len(names)), names)
    places = range(0, depth, 2)
    axis.set_xticks(places, [str(place + 1) for place in places])
    axis.set_xlabel("layer, from the input on")
    figure.colorbar(image, label="share of its input left open")
