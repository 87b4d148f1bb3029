"""SPEAR, Figure 6: success with and without the second stage of the greedy filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from gradaudit.budget import Control
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import Client
from gradaudit.experiments.spear_search import first_layer, search
from gradaudit.metrics import compare
from gradaudit.truth import Truth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-figure6"
TITLE = "Accuracy with and without the second greedy stage"
SOURCE = "SPEAR (arXiv 2403.03945), Figure 6, section 4.2"
DIFFERS = (
    "One search serves both: the candidates that it ends with are filtered with and without the "
    "second stage. Directions are made exact before their zeros are counted, which the paper does "
    "not do, and leaves the second stage less to put right. The paper goes to b = 24 with up to "
    "2e9 submatrices: 99 % at b = 20 and 63 % at b = 24 with both stages."
)
HEAD = ("b", "batches", "first stage alone", "both stages", "swaps", "submatrices (median)")
STAGES: dict[str, dict[str, Any]] = {
    "exact_first": {"label": "first stage alone", "marker": "s", "ms": 11, "mfc": "none"},
    "exact_both": {"label": "both stages", "marker": "o", "ls": "--"},
}


def units(scale: Scale) -> list[dict[str, Any]]:
    """One search each."""
    sizes = scale.pick((8, 10, 12, 14), (8, 10, 12, 14, 16), (10, 12, 14, 16, 18, 20, 22, 24))
    return [
        {"batch_size": size, "seed": seed} for size in sizes for seed in scale.batches(5, 20, 100)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Search one batch; what either filter makes of the last candidates."""
    source = scale.source("CIFAR-10")
    _, update, truth = Client(source, unit["batch_size"], unit["seed"]).observe()
    generator = torch.Generator().manual_seed(unit["seed"])
    choices = search(first_layer(update, generator), generator, control)
    last = max(choices, key=lambda choice: choice.submatrices, default=None)
    return [
        {
            **unit,
            "data": shown(source),
            "exact_first": last is not None and _exact(last.first_stage, truth),
            "exact_both": last is not None and _exact(last.second_stage, truth),
            "swaps": last.swaps if last else None,
            "submatrices": last.submatrices if last else None,
        }
    ]


def _exact(records: Float[Tensor, "b n"] | None, truth: Truth) -> bool:
    return records is not None and compare(records, truth, structural=False).exact_batch


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """The accuracy at every batch size."""
    lines: list[Sequence[str]] = [HEAD]
    for size, own in _by_size(rows).items():
        counted = sorted(row["submatrices"] for row in own if row["submatrices"] is not None)
        shares = [f"{sum(bool(r[c]) for r in own) / len(own):.0%}" for c in STAGES]
        swaps = sum(row["swaps"] or 0 for row in own)
        median = f"{counted[len(counted) // 2]:,}" if counted else "none"
        lines.append((str(size), str(len(own)), *shares, str(swaps), median))
    return lines


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Accuracy against the batch size."""
    axis = figure.subplots()
    groups = _by_size(rows)
    for column, style in STAGES.items():
        shares = [100 * sum(bool(r[column]) for r in own) / len(own) for own in groups.values()]
        axis.plot(list(groups), shares, **style)
    axis.set_xticks(list(groups))
    axis.set_ylim(0, 105)
    axis.set_xlabel("batch size b")
    axis.set_ylabel("batches recovered exactly (%)")
    axis.grid(alpha=0.2)
    axis.legend(loc="lower left")


def _by_size(rows: Sequence[Row]) -> dict[int, list[Row]]:
    groups: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda row: int(row["batch_size"])):
        groups.setdefault(row["batch_size"], []).append(row)
    return groups
