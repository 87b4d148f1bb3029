"""SPEAR, Figures 7 and 9: the attack while the network is trained, on its own and on fresh data."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

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
from gradaudit.metrics import compare
from gradaudit.models import mlp
from gradaudit.result import AuditResult
from gradaudit.truth import Truth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-figure7"
TITLE = "The attack during training (Figure 7: training data; Figure 9: fresh data)"
SOURCE = "SPEAR (arXiv 2403.03945), Figure 7, and Figure 9 of appendix D.2"
DIFFERS = (
    "The paper trains on all of MNIST, and attacks batches of its default size, 20; here the "
    "network sees what the data source holds, less a part that is kept as fresh data, and batches "
    "are smaller at the smaller scales. The paper prints curves, no numbers. A batch is exact when "
    "no entry of a record is off by more than 1e-6; records are certified by the audit. The two "
    "can part late in training: a record that the network is sure of has a gradient many millions "
    "of times smaller than others of its batch, and their float64 rounding is then an error that "
    "can be seen (the last two columns). It is found and certified all the same. An audit that is "
    "out of time certifies the records that it can prove."
)
HEAD = (
    "steps",
    "records",
    "network's accuracy",
    "fewest inactive neurons",
    "batches",
    "submatrices (mean)",
    "certified records",
    "exact batches",
    "weakest / strongest gradient",
    "largest error",
)
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
            strength = _strengths(model, inputs[chosen], labels[chosen])
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
                    "weakest": float(strength.min() / strength.max()),
                    "largest_error": _largest_error(result, truth),
                    **quality(result, truth),
                }
            )
    return rows


def _strengths(
    model: nn.Sequential, inputs: Float[Tensor, "b ..."], labels: Int[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """Of every record, the norm of its gradient dL/dz at the first layer."""
    z = model[:2](inputs).detach().requires_grad_()
    loss = nn.functional.cross_entropy(model[2:](z), labels)
    return torch.autograd.grad(loss, z)[0].norm(dim=1)


def _largest_error(result: AuditResult, truth: Truth) -> float | None:
    """Of any entry of any record that was reconstructed."""
    if result.records is None:
        return None
    pairs = compare(result.records, truth, structural=False).pairs
    return max(pair.max_abs_error for pair in pairs)


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """A line for every checkpoint and kind of records."""
    lines: list[Sequence[str]] = [HEAD]
    for records in RECORDS:
        for steps, own in _by_steps(rows, records).items():
            errors = [float(r["largest_error"]) for r in own if r["largest_error"] is not None]
            lines.append(
                (
                    str(steps),
                    records,
                    cell(mean(own, "network_accuracy"), ".0%"),
                    str(min(int(row["fewest_inactive"]) for row in own)),
                    str(len(own)),
                    cell(mean(own, "submatrices"), ",.0f"),
                    cell(_certified(own), ".0%"),
                    cell(mean(own, "exact"), ".0%"),
                    cell(min(float(row["weakest"]) for row in own), ".0e"),
                    cell(max(errors, default=None), ".0e"),
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
        for share, label, style in (
            # Larger, so that what lies on it does not hide it.
            (_certified, "records certified", "D-"),
            (lambda own: mean(own, "exact"), "batches exact", "o-"),
            (lambda own: mean(own, "network_accuracy"), "network's accuracy", "s--"),
        ):
            shares = [100 * (share(own) or 0.0) for own in groups.values()]
            marked = {"ms": 10, "mfc": "none"} if share is _certified else {}
            below.plot(list(groups), shares, style, label=label, **marked)
        below.set_xlabel("steps of training")
        below.set_ylim(0, 105)
    axes[0, 0].set_ylabel("submatrices sampled")
    axes[1, 0].set_ylabel("%")
    axes[0, 0].legend()
    axes[1, 1].legend(loc="lower right")


def _certified(rows: Sequence[Row]) -> float:
    return sum(row["recovered"] for row in rows) / sum(row["batch_size"] for row in rows)


def _by_steps(rows: Sequence[Row], records: str) -> dict[int, list[Row]]:
    groups: dict[int, list[Row]] = {}
    for row in rows:
        if row["records"] == records:
            groups.setdefault(int(row["steps"]), []).append(row)
    return dict(sorted(groups.items()))
