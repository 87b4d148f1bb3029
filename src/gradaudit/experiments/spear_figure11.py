"""SPEAR, Figure 11: all images of a batch, by the exact attack and by gradient matching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gradaudit.budget import Control
from gradaudit.errors import InputError
from gradaudit.experiments.experiment import Row
from gradaudit.experiments.pictures import draw_rows, encode
from gradaudit.experiments.scale import Scale, shown
from gradaudit.experiments.spear_client import (
    MATCHING,
    Client,
    attack,
    cell,
    compared_with,
    mean,
)
from gradaudit.truth import Truth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spear-figure11"
TITLE = "All images of a batch of one class, by two attacks"
SOURCE = "SPEAR (arXiv 2403.03945), Figures 1 and 11, appendix E"
DIFFERS = (
    "The exact attack is `auto`. Gradient matching is told the labels; it runs this project's "
    "usual settings of Inverting Gradients, until its time is up."
)
HEAD = ("attack", "records", "PSNR (mean)", "PSNR (lowest)", "PSNR (highest)")
ROWS = {"auto": "ours", MATCHING: "matching", "original": "original"}
BATCH_SIZE = 20


def units(scale: Scale) -> list[dict[str, Any]]:
    """Either attack on the same batch."""
    return [
        {"attack": name, "batch_size": BATCH_SIZE, "seed": scale.seed}
        for name in ("auto", MATCHING)
    ]


def run(unit: Row, scale: Scale, control: Control) -> list[dict[str, Any]]:
    """One attack; a row for every record with the picture it came to, and the originals."""
    source = scale.source("Tiny-ImageNet")
    model, update, truth = Client(
        source, unit["batch_size"], unit["seed"], one_class=True
    ).observe()
    result = attack(model, update, truth, unit["attack"], seed=unit["seed"], control=control)
    found = result.records if result.records is not None else result.approximate_records
    rows = [] if found is None else pictures(found, truth)
    if unit["attack"] == "auto":
        rows += originals(truth)
    return [{**unit, **row, "data": shown(source)} for row in rows]


def pictures(found: Tensor, truth: Truth) -> list[dict[str, Any]]:
    """Every reconstruction that could be matched with a true record."""
    images = _images(found, truth)
    return [
        {
            "image": "found",
            "record": pair.truth,
            "psnr": pair.psnr,
            "exact": pair.exact,
            "picture": encode(images[pair.record]),
        }
        for pair in compared_with(found, truth).pairs
    ]


def originals(truth: Truth) -> list[dict[str, Any]]:
    """The true records."""
    return [
        {"image": "original", "record": number, "psnr": None, "picture": encode(image)}
        for number, image in enumerate(_images(truth.inputs, truth))
    ]


def _images(records: Tensor, truth: Truth) -> Any:
    if truth.preprocessing is None:
        raise InputError("data", "records that are no images", "a source of images")
    return truth.preprocessing.to_images(records.detach().double().cpu().numpy())


def table(rows: Sequence[Row]) -> list[Sequence[str]]:
    """How close either attack came."""
    lines: list[Sequence[str]] = [HEAD]
    for name in ("auto", MATCHING):
        own = [row for row in rows if row["attack"] == name and row["image"] == "found"]
        if own:
            values = [float(row["psnr"]) for row in own]
            numbers = (mean(own, "psnr"), min(values), max(values))
            lines.append((name, str(len(own)), *(cell(value, ".1f") for value in numbers)))
    return lines


def draw(rows: Sequence[Row], figure: Figure) -> None:
    """The paper's three rows."""
    places = sorted({int(row["record"]) for row in rows})
    shown_rows = {}
    for name, label in ROWS.items():
        own = {
            int(row["record"]): row
            for row in rows
            if name == ("original" if row["image"] == "original" else row["attack"])
        }
        shown_rows[label] = [_image(own.get(place)) for place in places]
    draw_rows(figure, shown_rows)


def _image(row: Row | None) -> tuple[str, str]:
    if row is None:
        return "", "none"
    return row["picture"], "" if row["psnr"] in (None, "") else f"{float(row['psnr']):.0f} dB"
