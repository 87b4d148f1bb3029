"""SPEAR, Figures 8 and 10: how often all submatrices together miss a direction."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from scipy.stats import binomtest
from torch import Tensor, nn

from gradaudit.budget import Control
from gradaudit.data import load_source
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import HIDDEN_LAYERS
from gradaudit.models import mlp
from gradaudit.theory import failure_probability, sparsity_threshold
from gradaudit.theory.samples import Bound

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-figure8"
TITLE = "How often exhaustive sampling fails, counted"
SOURCE = "SPEAR (arXiv 2403.03945), Figures 8 and 10, Lemma 5.3"
DIFFERS = (
    "A batch counts as failed when some true direction lies in the kernel of no submatrix, or has "
    "too few zeros for the filter; what the greedy choice makes of the rest is not counted. The "
    "submatrices are not listed one by one: a direction is in the kernel of one of them exactly "
    "when the rows without its record have rank b - 1 (the tests list them all at small sizes). "
    "Beside networks as in the paper, each of its own weights and batch, the lemma's own "
    "assumption is counted: entries that are zero by the toss of a coin. The paper finds its "
    "failures between the approximation and the upper bound; it prints curves, no numbers, and "
    "which batch sizes it shows was not at hand. The upper bound takes the submatrices for "
    "independent, which they are not: a second record that is zero wherever the first is makes all "
    "of them singular at once, and in networks the records resemble each other. Of all the "
    "intervals here, one in twenty misses its truth by chance."
)
HEAD = ("b", "m", "approximate", "upper")
BATCH_SIZES, WIDTHS = (4, 6, 8, 10), (10, 15, 20, 25, 30, 35, 40)
BOUNDS: tuple[Bound, ...] = ("approximate", "upper")
NETWORKS, COINS = "networks", "coin tosses"
STYLES = {NETWORKS: ("o", "#0072B2", -0.5), COINS: ("s", "#D55E00", 0.5)}
LEVEL = 0.95
# Tosses for each network: they take a fraction of the time.
TOSSES = 20
# Gradients whose ranks are decided at a time.
CHUNK = 100


def units(scale: Scale) -> list[dict[str, Any]]:
    """A batch size and a width each."""
    return [
        {"gradient": gradient, "batch_size": size, "width": width}
        for gradient in STYLES
        for size in BATCH_SIZES
        for width in WIDTHS
    ]


def all_submatrices_find(
    gradients: Float[Tensor, "n m b"], least_zeros: int = 0
) -> Bool[Tensor, "n b"]:
    """Which true directions are in the kernel of some submatrix, and pass the filter.

    A submatrix of b - 1 rows of the left factor has a true direction as its whole kernel if the
    record's gradient is zero in these rows and the other records' gradients have rank b - 1 there.
    Of all rows where it is zero, b - 1 independent ones can be chosen exactly if their rank is
    that.

    Args:
        gradients: dL/dZ of each batch, float64.
        least_zeros: That the filter asks for.

    Source:
        SPEAR (arXiv 2403.03945), Theorem 3.4 and Lemma 5.3.

    Example:
        >>> gradient = torch.tensor([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
        >>> all_submatrices_find(gradient.double()).tolist()
        [[True, True], [True, False]]
    """
    silent = gradients == 0
    # A rank does not change with the records' scales, but its rounding does.
    scaled = gradients / gradients.abs().amax(1, keepdim=True).clamp(min=torch.finfo().tiny)
    rows = torch.where(silent.mT.unsqueeze(-1), scaled.unsqueeze(1), 0.0)
    ranks = torch.linalg.matrix_rank(rows)
    return (ranks == gradients.shape[2] - 1) & (silent.sum(1) >= least_zeros)


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Count the batches of which a direction is missed."""
    seeds = scale.batches(100, 2000, 20_000)
    size, width = unit["batch_size"], unit["width"]
    zeros = round(width * sparsity_threshold(width))
    source = scale.source("CIFAR-10")
    from_networks = unit["gradient"] == NETWORKS
    if from_networks:
        wanted, drawn = len(seeds), _of_networks(size, width, seeds, source)
    else:
        wanted = TOSSES * len(seeds)
        drawn = _tossed(size, width, wanted, scale.seed)
    failed = total = 0
    for gradients in drawn:
        if control.stop_reason(0) is not None:
            break
        failed += int((~all_submatrices_find(gradients, zeros).all(1)).sum())
        total += len(gradients)
        control.report(f"b = {size}, m = {width}", tried=total, wanted=wanted)
    if not total:
        return []
    interval = binomtest(failed, total).proportion_ci(LEVEL, "exact")
    return [
        {
            **unit,
            "data": shown(source) if from_networks else None,
            "batches": total,
            "failed": failed,
            "low": float(interval.low),
            "high": float(interval.high),
            **{bound: failure_probability(size, width, bound) for bound in BOUNDS},
        }
    ]


def _of_networks(size: int, width: int, seeds: range, source: str) -> Iterator[Tensor]:
    """dL/dZ of the first layer, of a network and a batch for every seed."""
    data = load_source(source)
    for first in range(0, len(seeds), CHUNK):
        found = []
        for seed in seeds[first : first + CHUNK]:
            batch = data.batch(size, seed=seed)
            hidden, features = [width] * HIDDEN_LAYERS, batch.inputs[0].numel()
            network = mlp(features, hidden, data.classes, seed=seed, dtype=torch.float64)
            z = network[:2](batch.inputs).detach().requires_grad_()
            loss = nn.functional.cross_entropy(network[2:](z), batch.labels)
            found.append(torch.autograd.grad(loss, z)[0].T)
        yield torch.stack(found)


def _tossed(size: int, width: int, number: int, seed: int) -> Iterator[Tensor]:
    """Normal entries, each zero with probability 1/2."""
    generator = torch.Generator().manual_seed(seed)
    for first in range(0, number, CHUNK):
        shape = (min(CHUNK, number - first), width, size)
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        yield values * (torch.rand(shape, generator=generator) < 0.5)


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """Counts with their intervals beside both formulas, and where they part."""
    found = {(row["batch_size"], row["width"], row["gradient"]): row for row in rows}
    lines: list[Sequence[str]] = [(*HEAD, *(f"{name}: failed (95 % interval)" for name in STYLES))]
    for size, width in sorted({key[:2] for key in found}):
        own = {name: found.get((size, width, name)) for name in STYLES}
        known = next(row for row in own.values() if row)
        bounds = [f"{known[bound]:.2g}" for bound in BOUNDS]
        lines.append((str(size), str(width), *bounds, *map(_count, own.values())))
    return lines


def _count(row: Row | None) -> str:
    if row is None:
        return "not run"
    text = f"{row['failed']:,} of {row['batches']:,} ({row['low']:.2g} to {row['high']:.2g})"
    if row["low"] > row["upper"]:
        return text + ", above the upper"
    return text + (", below the approximate" if row["high"] < row["approximate"] else "")


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Probability of failure against the width, a panel for each batch size."""
    sizes = sorted({row["batch_size"] for row in rows})
    columns = min(2, len(sizes))
    panels = figure.subplots(
        math.ceil(len(sizes) / columns), columns, sharex=True, sharey=True, squeeze=False
    )
    lowest = min(row["high"] for row in rows) / 5
    for axis, size in zip(panels.flat, sizes, strict=False):
        own = sorted((r for r in rows if r["batch_size"] == size), key=lambda row: row["width"])
        widths = range(size, max(r["width"] for r in own) + 1)
        for bound, style in zip(BOUNDS, ("k-", "k--"), strict=True):
            curve = [failure_probability(size, width, bound) for width in widths]
            axis.plot(widths, curve, style, lw=1, label=f"Lemma 5.3, {bound}")
        for name, (marker, colour, shift) in STYLES.items():
            counted = [row for row in own if row["gradient"] == name]
            if counted:
                axis.plot([], [], marker, color=colour, ms=4, label=f"counted, {name}")
            for row in counted:
                # Where nothing failed, an interval from the axis up and no point.
                x = row["width"] + shift
                axis.vlines(x, max(row["low"], lowest), row["high"], color=colour, lw=1.5)
                if row["failed"]:
                    axis.plot(x, row["failed"] / row["batches"], marker, color=colour, ms=4)
        axis.set_title(f"b = {size}", fontsize="medium")
        axis.set_yscale("log")
        axis.set_ylim(lowest, 2)
        axis.grid(alpha=0.2)
    for axis in panels[-1]:
        axis.set_xlabel("width m")
    for line in panels:
        line[0].set_ylabel("probability of failure")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize="small")
