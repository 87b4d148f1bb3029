"""Defences on a simulated client: what each leaves to the attack, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradaudit.budget import Control
from gradaudit.data import load_source
from gradaudit.defending import Plan, Training, defense_curve, grid
from gradaudit.defending.setting import expand
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "defence-curves"
TITLE = "Defences: records recovered, PSNR and accuracy"
SOURCE = "gradaudit (docs/defences.md)"
DIFFERS = (
    "Attack `auto` on one gradient of a client, float64. Close means a PSNR of 20 dB or more, "
    "certified or not. Accuracy is that of the same network trained with the same defence, on "
    "held-out records. That this attack fails proves nothing about others."
)
HEAD = ("defence", "records", "certified", "close", "PSNR (median)", "accuracy", "change")
DEFENCES = (
    "none",
    "dp-sgd:clip=1,noise_multiplier=1e-6/1e-4/1e-2/1",
    "prune:share=0.5/0.9/0.99",
    "quantise:bits=8/4/1",
    "sign",
    "mask:share=0.5/0.9",
)
BATCH_SIZE, WIDTH = 16, 400


def units(scale: Scale) -> list[dict[str, Any]]:
    """One defence each."""
    return [{"defence": text} for group in DEFENCES for text in _expanded(group)]


def _expanded(group: str) -> list[str]:
    return [" + ".join(parts) or "none" for parts in expand(group)]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Audit the defended client with every seed, and train with the defence."""
    source = scale.source("MNIST")
    plan = Plan(
        seeds=tuple(scale.batches(2, 5, 20)),
        dtype="float64",
        seconds=scale.pick(4.0, 30.0, 300.0),
        accounting=None,
        training=Training(rounds=scale.pick(60, 400, 2000)),
    )
    settings = grid(batch_sizes=[BATCH_SIZE], widths=[WIDTH], defenses=[unit["defence"]])
    (point,) = defense_curve(load_source(source), settings, plan, control=control).points
    return [
        {
            **unit,
            "data": shown(source),
            "records": point.records,
            "certified": point.certified,
            "close": point.close,
            "psnr": point.psnr,
            "accuracy": point.trained.accuracy if point.trained else None,
        }
    ]


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """A line a defence; the change of accuracy is against no defence."""
    plain = next((row["accuracy"] for row in rows if row["defence"] == "none"), None)
    return [
        HEAD,
        *(
            (
                str(row["defence"]),
                str(row["records"]),
                f"{row['certified'] / row['records']:.0%}",
                f"{row['close'] / row['records']:.0%}",
                cell(row["psnr"], ".1f"),
                cell(row["accuracy"], ".1%"),
                cell(_change(row["accuracy"], plain), "+.1%"),
            )
            for row in rows
        ),
    ]


def _change(accuracy: float | None, plain: float | None) -> float | None:
    return None if accuracy is None or plain is None else accuracy - plain


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """Shares recovered, and the accuracy, of every defence."""
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    places = range(len(rows))
    shares = [[row[name] / row["records"] * 100 for row in rows] for name in ("close", "certified")]
    left.barh([p - 0.2 for p in places], shares[1], 0.38, color="#0072B2", label="certified")
    left.barh([p + 0.2 for p in places], shares[0], 0.38, color="#E69F00", label="close")
    left.set_yticks(
        places, [str(row["defence"]).replace("noise_multiplier", "noise") for row in rows]
    )
    left.invert_yaxis()
    left.set_xlabel("records recovered (%)")
    left.legend(loc="lower right")
    known = [
        (100 * row["accuracy"], p) for p, row in enumerate(rows) if row["accuracy"] is not None
    ]
    right.plot([x for x, _ in known], [y for _, y in known], "o", color="#009E73")
    right.set_xlabel("accuracy when trained with it (%)")
    right.set_xlim(0, 100)
    right.grid(alpha=0.3)
