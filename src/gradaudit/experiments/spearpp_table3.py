"""SPEAR++, Table 3: batches under DP-SGD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradaudit.budget import Budget, Control
from gradaudit.defenses import DPSGD
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import Client, attack, quality
from gradaudit.experiments.spearpp_table import compared, draw_psnr

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spearpp-table3"
TITLE = "Batches under DP-SGD"
SOURCE = "SPEAR++ (arXiv 2510.24200), Table 3"
DIFFERS = (
    "sigma is read as the standard deviation of the noise in every entry of the mean gradient: "
    "the paper calls it similar to the median entry. The attack is `auto`, which treats noise on "
    "its own (docs/noise.md). Nothing is exact under noise, and by what the paper's accuracy "
    "counts is not known to us: ours is the share of records that the audit certifies to within "
    "an error, without the truth."
)
CLIP = 2.0
SIGMAS = {"sigma = 1e-4": 1e-4, "sigma = 1e-6": 1e-6}
PAPER = {("sigma = 1e-4", 20, 200): (31.90, 0.75), ("sigma = 1e-6", 150, 4000): (55.45, 0.88)}
# Of one audit, by scale.
SECONDS = (40.0, 120.0, 3600.0)


def units(scale: Scale) -> list[dict[str, Any]]:
    """One audit each."""
    settings = scale.pick(
        (("sigma = 1e-4", 20, 200), ("sigma = 1e-6", 20, 200), ("sigma = 1e-6", 65, 1000)),
        (*PAPER, ("sigma = 1e-6", 20, 200), ("sigma = 1e-6", 65, 1000)),
        tuple(PAPER),
    )
    return [
        {"variant": variant, "batch_size": batch_size, "width": width, "seed": seed}
        for variant, batch_size, width in settings
        for seed in scale.batches(3, 3, 100)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """Audit one batch."""
    # The noise of DP-SGD is in the sum of the records' gradients, in multiples of the clip.
    multiplier = SIGMAS[unit["variant"]] * unit["batch_size"] / CLIP
    source = scale.source("CIFAR-10")
    client = Client(
        source,
        unit["batch_size"],
        unit["seed"],
        width=unit["width"],
        defenses=(DPSGD(clip=CLIP, noise_multiplier=multiplier),),
    )
    return audited(unit, source, client, control.fresh(Budget(seconds=scale.pick(*SECONDS))))


def audited(unit: Row, source: str, client: Client, control: Control) -> list[dict[str, Any]]:
    """The row of one audit.

    Args:
        unit: Of this table or the next.
        source: Of the client's records.
        client: Who sends.
        control: Budget and interruption.
    """
    model, update, truth = client.observe()
    result = attack(model, update, truth, "auto", seed=unit["seed"], control=control)
    row = quality(result, truth)
    return [
        {
            **unit,
            "data": shown(source),
            "status": result.status.value,
            "certified_share": result.records_recovered / unit["batch_size"],
            **{name: row.get(name) for name in ("exact", "psnr", "ssim", "recovered", "seconds")},
        }
    ]


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """Paper and ours."""
    return compared(rows, PAPER, "noise", {"certified_share": "records certified"})


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """The PSNR of every batch."""
    draw_psnr(rows, PAPER, figure)
