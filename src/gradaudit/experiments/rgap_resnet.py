"""R-GAP: what a missing skip connection of ResNet-18 does to an optimisation attack."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from scipy.stats import wilcoxon
from torch import Tensor, nn

from gradaudit.budget import Control
from gradaudit.clients import FedSGD
from gradaudit.errors import require
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.resnet_variants import Size, classes_of, images, network, trained_network
from gradaudit.experiments.scale import Scale, shown
from gradaudit.gradient_matching import INVERTING_GRADIENTS, Knowledge, make_target, match_gradient
from gradaudit.preprocessing import Preprocessing
from gradaudit.rank import rank_analysis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "rgap-resnet"
TITLE = "ResNet-18 without a skip connection, under an optimisation attack"
SOURCE = "R-GAP (arXiv 2010.07733), variants of ResNet-18"
DIFFERS = (
    "The paper reports about three times the error without the skip connection of the third "
    "residual block; its settings were not at hand. Here Inverting Gradients (label known, one "
    "start) attacks one image at a time; below `--full`, images are averaged to 16 x 16, the first "
    "blocks are 16 wide instead of 64, and iterations are few: 100 at `--quick`, where all weights "
    "are as initialised. There is no batch normalisation. Networks share weights and starts; the "
    "error is that of pixels from 0 to 1, and one above that of the image's mean colour is no "
    "reconstruction. The finding counts as reproduced where Wilcoxon's "
    "signed-rank test finds the error larger (p < 0.05), and it was not in any run so far: with "
    "400 iterations the ratio was 1.07 on 18 images (p = 0.45), with trained weights 0.68 on 5 "
    "(`benchmarks/results/resnet_skips.md`). Nor does the rank analysis predict it: without that "
    "skip as many dimensions are open as with it (`rgap-rank` has all blocks)."
)
HEAD = (
    "weights",
    "network",
    "paper: ratio",
    "images",
    "MSE (mean)",
    "MSE (median)",
    "of the image's mean colour",
    "ratio",
    "p",
    "larger error",
    "open dimensions",
    "of the paper's size",
)
ATTACKED = 100
# The block whose skip the paper speaks of, its ratio, and the significance of a finding.
PAPERS, PAPER_RATIO, LEVEL = 3, 3.0, 0.05
FULL_SIZE, FULL_WIDTH = 32, 64
TOTAL_VARIATION = 1e-2

SIZES = (Size(16, 16, 100), Size(16, 16, 400), Size(FULL_SIZE, FULL_WIDTH, 4800))


def units(scale: Scale) -> list[dict[str, Any]]:
    """One image attacked through one network each."""
    every = (0, *range(1, 9))
    return [
        {"weights": weights, "without_skip": block, "seed": seed}
        for weights in scale.pick(("initial",), *[("initial", "trained")] * 2)
        for seed in scale.batches(5, 12, 20)
        for block in scale.pick((0, PAPERS), (0, PAPERS), every)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Attack one image."""
    size: Size = scale.pick(*SIZES)
    block, seed = unit["without_skip"], unit["seed"]
    source = scale.source("CIFAR-10")
    inputs, labels, preprocessing = images(source, size.side)
    # The last are attacked; those before them are for training.
    first = len(inputs) - min(ATTACKED, len(inputs) // 2)
    place = first + seed % (len(inputs) - first)
    accuracy = None
    if unit["weights"] == "trained":
        model, accuracy = trained_network(source, size, block, first)
    else:
        classes = classes_of(labels)
        model = network(inputs.shape[1:], size.width, block, classes=classes, seed=seed)
    found, distance = _attack(
        model,
        (inputs[place : place + 1], labels[place : place + 1], preprocessing),
        size.iterations,
        seed,
        control,
    )
    std = torch.tensor(preprocessing.std or (1.0,)).reshape(-1, 1, 1)

    def error(image: Tensor) -> float:
        return float(((image - inputs[place]) * std).square().mean())

    return [
        {
            **unit,
            "data": shown(source),
            "mse": error(found),
            "flat_mse": error(inputs[place].mean((1, 2), keepdim=True)),
            "cosine_distance": distance,
            "accuracy": accuracy,
            "open": rank_analysis(model, inputs.shape[1:]).deficit,
            "open_full_size": open_dimensions(inputs.shape[1], block),
        }
    ]


@lru_cache
def open_dimensions(channels: int, without_skip: int) -> int:
    """What the rank analysis leaves open of a network of the paper's size.

    Args:
        channels: Of an image.
        without_skip: Number of the block; 0 for all skips.

    Example:
        >>> open_dimensions(3, 0) == open_dimensions(3, PAPERS)
        True
    """
    shape = (channels, FULL_SIZE, FULL_SIZE)
    return rank_analysis(network(shape, FULL_WIDTH, without_skip), shape).deficit


def _attack(
    model: nn.Module,
    record: tuple[Tensor, Tensor, Preprocessing],
    iterations: int,
    seed: int,
    control: Control,
) -> tuple[Float[Tensor, "c h w"], float]:
    """The image that the attack makes up, and the cosine distance of its gradient."""
    inputs, labels, preprocessing = record
    update, _ = FedSGD(model).update(inputs, labels, preprocessing)
    method = replace(
        INVERTING_GRADIENTS, iterations=iterations, restarts=1, total_variation=TOTAL_VARIATION
    )
    found = match_gradient(
        make_target(model, update, "cross_entropy", Knowledge()),
        method,
        1,
        labels=tuple(labels.tolist()),
        generator=torch.Generator().manual_seed(seed),
        control=control,
    )
    return found.records[0].reshape(inputs.shape[1:]), float(found.distance)


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """A line for the network with all skips, and for each without one."""
    lines: list[Sequence[str]] = [HEAD]
    for weights, block in dict.fromkeys((row["weights"], row["without_skip"]) for row in rows):
        own = [r for r in rows if (r["weights"], r["without_skip"]) == (weights, block)]
        errors = [float(row["mse"]) for row in own]
        compared = ("-", "-", "-") if block == 0 else _compared(pairs(rows, weights, block))
        opened = {(f"{row['open']:,}", f"{row['open_full_size']:,}") for row in own}
        lines.append(
            (
                weights,
                f"no skip of block {block}" if block else "all skips",
                f"about {PAPER_RATIO:g}" if block == PAPERS else "not known" if block else "-",
                str(len(own)),
                f"{statistics.mean(errors):.4f}",
                f"{statistics.median(errors):.4f}",
                f"{statistics.median(row['flat_mse'] for row in own):.4f}",
                *compared,
                *opened.pop(),
            )
        )
    return lines


def pairs(rows: Sequence[Row], weights: str, block: int) -> list[tuple[float, float]]:
    """Errors with all skips and without one, of images that both networks were attacked on."""
    with_all, without = (
        {r["seed"]: float(r["mse"]) for r in rows if (r["weights"], r["without_skip"]) == key}
        for key in ((weights, 0), (weights, block))
    )
    return [(error, without[seed]) for seed, error in with_all.items() if seed in without]


def _compared(errors: Sequence[tuple[float, float]]) -> tuple[str, str, str]:
    """The ratio (geometric mean), p of the larger error, and whether it was found."""
    if not errors:
        return "not measured", "-", "-"
    logarithms = [math.log(without / whole) for whole, without in errors]
    p = float(wilcoxon(logarithms, alternative="greater").pvalue)
    # The least that the test can give: every error is larger.
    if 2.0 ** -len(errors) >= LEVEL:
        verdict = "too few images to tell"
    else:
        verdict = "yes" if p < LEVEL else "not found"
    return f"{math.exp(statistics.mean(logarithms)):.2f}", f"{p:.2g}", verdict


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Errors without the skip against those with it, and the open dimensions of both."""
    ticker = require("matplotlib.ticker", "report")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    ends: list[float] = []
    for number, weights in enumerate(dict.fromkeys(row["weights"] for row in rows)):
        points = pairs(rows, weights, PAPERS)
        if points:
            left.plot(
                *zip(*points, strict=True), "os"[number], label=f"an image, {weights} weights"
            )
            ends += [error for pair in points for error in pair]
    if ends:
        line = (min(ends) / 1.5, max(ends) * 1.5)
        left.plot(line, line, "k-", lw=1, label="the same error")
        left.plot(
            line, [PAPER_RATIO * x for x in line], "k--", lw=1, label="three times, the paper"
        )
        left.legend(fontsize="small", loc="upper left")
    left.set(xscale="log", yscale="log", xlabel="MSE with all skips")
    for each in (left.xaxis, left.yaxis):
        each.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        each.set_major_formatter("{x:g}")
        each.set_minor_formatter(ticker.NullFormatter())
    left.set_ylabel(f"MSE without the skip of block {PAPERS}")
    blocks = sorted({int(row["without_skip"]) for row in rows})
    opened = {int(row["without_skip"]): row["open_full_size"] for row in rows}
    right.bar(range(len(blocks)), [opened[block] for block in blocks], color="#009E73")
    right.set_xticks(range(len(blocks)), [f"no {block}" if block else "all" for block in blocks])
    right.yaxis.set_major_formatter("{x:,.0f}")
    right.set_xlabel("skip connections")
    right.set_ylabel("open dimensions at the paper's size")
