"""SPEAR, Figures 7 and 9: the attack while the network is trained, on its own and on fresh data."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gradaudit.budget import Budget, Control
from gradaudit.clients import FedSGD
from gradaudit.data import load_source
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import (
    HIDDEN_LAYERS,
    WIDTH,
    attack,
    cell,
    mean,
    quality,
)
from gradaudit.models import mlp

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-figure7"
TITLE = "The attack during training (Figure 7: training data; Figure 9: fresh data)"
SOURCE = "SPEAR (arXiv 2403.03945), Figure 7, and Figure 9 of appendix D.2"
DIFFERS = (
    "The paper trains on all of MNIST, and attacks batches of its default size, 20; here the "
    "network sees what the data source holds, less a part that is kept as fresh data, and batches "
    "are smaller at the smaller scales. The paper prints curves, no numbers."
)
HEAD = (
    "steps",
    "records",
    "network's accuracy",
    "fewest inactive neurons",
    "batches",
    "submatrices (mean)",
    "accuracy",
)
SIZE = (8.0, 6.0)
# Plain SGD, as clients of FedSGD do it; the paper does not say how it trains.
LEARNING_RATE, TRAINING_BATCH = 0.05, 64
# Of the source; the rest is trained on.
FRESH_SHARE = 5
RECORDS = ("trained on", "fresh")
# Of one audit, by scale: training must not use up the time of the audits after it.
AUDIT_SECONDS = (10.0, 120.0, 600.0)


def units(scale: Scale) -> list[dict[str, Any]]:
    """One training each, attacked at every checkpoint."""
    return [{"batch_size": scale.pick(10, 14, 20), "seed": seed} for seed in scale.batches(1, 5, 5)]


def checkpoints(scale: Scale) -> tuple[int, ...]:
    """Steps after which the network is attacked."""
    most = (0, 250, 500, 1000, 2000, 3000, 4000, 5000)
    return most if scale.name != "quick" else most[:5]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Train one network and attack it on the way, on records of either kind."""
    source = load_source(scale.source("MNIST"))
    generator = torch.Generator().manual_seed(unit["seed"])
    # What a source of photos holds has no end: of those, as many as MNIST's file has.
    total = len(source) if isinstance(source, Sized) else 3000
    everything = source.batch(total, generator=generator)
    fresh = total // FRESH_SHARE
    parts = {"fresh": slice(0, fresh), "trained on": slice(fresh, total)}
    own_inputs = everything.inputs[parts["trained on"]]
    own_labels = everything.labels[parts["trained on"]]
    widths = [WIDTH] * HIDDEN_LAYERS
    features = own_inputs[0].numel()
    model = mlp(features, widths, source.classes, generator=generator, dtype=torch.float64)
    optimiser = torch.optim.SGD(model.parameters(), LEARNING_RATE)
    limit = Budget(seconds=scale.pick(*AUDIT_SECONDS))
    rows: list[dict[str, Any]] = []
    done = 0
    for steps in checkpoints(scale):
        for _ in range(steps - done):
            chosen = torch.randint(len(own_labels), (TRAINING_BATCH,), generator=generator)
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(own_inputs[chosen]), own_labels[chosen]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        done = steps
        optimiser.zero_grad()
        control.report("training", tried=steps, wanted=checkpoints(scale)[-1])
        for records, part in parts.items():
            inputs, labels = everything.inputs[part], everything.labels[part]
            chosen = torch.randperm(len(labels), generator=generator)[: unit["batch_size"]]
            with torch.no_grad():
                right = (model(inputs).argmax(1) == labels).double().mean()
                inactive = (model[:2](inputs[chosen]) <= 0).sum(1).min()
            update, truth = FedSGD(model).update(
                inputs[chosen], labels[chosen], everything.preprocessing
            )
            result = attack(
                model, update, truth, "spear", seed=unit["seed"], control=control.fresh(limit)
            )
            rows.append(
                {
                    **unit,
                    "steps": steps,
                    "records": records,
                    "data": shown(scale.source("MNIST")),
                    "network_accuracy": float(right),
                    "fewest_inactive": int(inactive),
                    **quality(result, truth),
                }
            )
    return rows


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """A line for every checkpoint and kind of records."""
    lines: list[Sequence[str]] = [HEAD]
    for records in RECORDS:
        for steps, own in _by_steps(rows, records).items():
            lines.append(
                (
                    str(steps),
                    records,
                    cell(mean(own, "network_accuracy"), ".0%"),
                    str(min(int(row["fewest_inactive"]) for row in own)),
                    str(len(own)),
                    cell(mean(own, "submatrices"), ",.0f"),
                    cell(mean(own, "exact"), ".0%"),
                )
            )
    return lines


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Samples needed above, accuracy below; what was trained on left, fresh data right."""
    axes = figure.subplots(2, 2, sharex=True, sharey="row")
    for column, (records, number) in enumerate(zip(RECORDS, (7, 9), strict=True)):
        groups = _by_steps(rows, records)
        above, below = axes[0, column], axes[1, column]
        points = [(s, row["submatrices"]) for s, own in groups.items() for row in own]
        points = [(steps, tried) for steps, tried in points if tried is not None]
        above.plot(*zip(*points, strict=True), "o", alpha=0.5, label="one batch")
        above.plot(
            list(groups), [mean(own, "submatrices") for own in groups.values()], label="mean"
        )
        above.set_yscale("log")
        above.set_title(f"Figure {number}: records that are {records}")
        for column_name, label, style in (
            ("exact", "batches recovered", "o-"),
            ("network_accuracy", "network's accuracy", "s--"),
        ):
            shares = [100 * (mean(own, column_name) or 0.0) for own in groups.values()]
            below.plot(list(groups), shares, style, label=label)
        below.set_xlabel("steps of training")
        below.set_ylim(0, 105)
    axes[0, 0].set_ylabel("submatrices sampled")
    axes[1, 0].set_ylabel("%")
    axes[0, 0].legend()
    axes[1, 1].legend(loc="lower right")


def _by_steps(rows: Sequence[Row], records: str) -> dict[int, list[Row]]:
    groups: dict[int, list[Row]] = {}
    for row in rows:
        if row["records"] == records:
            groups.setdefault(int(row["steps"]), []).append(row)
    return dict(sorted(groups.items()))
