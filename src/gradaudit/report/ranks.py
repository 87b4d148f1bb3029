"""The picture of a rank analysis: how much of every layer's input its equations determine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradaudit.errors import InputError
from gradaudit.rank.result import RankAnalysis
from gradaudit.rank.rows import LayerRow
from gradaudit.report.figures import DARK, LIGHT, Palette, Picture, new_axes, svg_bytes
from gradaudit.report.images import data_uri
from gradaudit.report.text import count, plain
from gradaudit.tensorfile import replacing

FORMATS = (".svg", ".png")
# Dots per inch of a PNG.
RESOLUTION = 150
# Characters of a layer's name beside its bar.
NAME_LENGTH = 28


def rank_picture(analysis: RankAnalysis) -> Picture:
    """Bars of the share of each layer's input that its linear equations determine.

    Args:
        analysis: From `gradaudit.rank_analysis`.

    Returns:
        The picture for light and dark pages.

    Raises:
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> from gradaudit.models import cnn6_d
        >>> from gradaudit.rank import rank_analysis
        >>> rank_picture(rank_analysis(cnn6_d(), (3, 32, 32))).alternative
        'Equations of 7 layers: conv2 leaves 280 of 3,468 dimensions of its input open.'
    """
    light, dark = (
        data_uri(svg_bytes(_draw(analysis.layers, palette)), "image/svg+xml")
        for palette in (LIGHT, DARK)
    )
    return Picture(light, dark, _alternative(analysis))


def write_rank_figure(analysis: RankAnalysis, path: str | Path) -> None:
    """Write that picture to a file.

    Args:
        analysis: From `gradaudit.rank_analysis`.
        path: Ends with .svg or .png.

    Raises:
        InputError: Another ending, or the file cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    check_figure(path)
    figure = _draw(analysis.layers, LIGHT)
    with replacing(path) as temporary:
        if Path(path).suffix == ".svg":
            temporary.write_bytes(svg_bytes(figure))
        else:
            figure.savefig(temporary, format="png", dpi=RESOLUTION, facecolor=LIGHT.paper)


def check_figure(path: str | Path) -> None:
    """Check a figure's file name.

    Raises:
        InputError: It ends with nothing that can be written.

    Example:
        >>> check_figure("ranks.svg")
    """
    if Path(path).suffix not in FORMATS:
        raise InputError("figure", repr(str(path)), "a file that ends with " + " or ".join(FORMATS))


def _alternative(analysis: RankAnalysis) -> str:
    layers = count(len(analysis.layers), "layer")
    if not analysis.losses:
        return f"Equations of {layers}: all determine their layer's input."
    open_at = "; ".join(
        f"{plain(row.name, NAME_LENGTH)} leaves {row.deficit:,} of {row.unknowns:,} dimensions of "
        "its input open"
        for row in analysis.losses
    )
    return f"Equations of {layers}: {open_at}."


def _draw(rows: tuple[LayerRow, ...], palette: Palette) -> Any:
    figure, axes = new_axes(palette, 0.9 + 0.24 * len(rows))
    places = range(len(rows))
    shares = [row.exact_rank / row.unknowns for row in rows]
    axes.barh(places, shares, color=palette.strong, height=0.62)
    axes.barh(
        places, [1 - share for share in shares], left=shares, color=palette.faint, height=0.62
    )
    for place, row in zip(places, rows, strict=True):
        if row.deficit:
            text, color = f"{row.deficit:,} of {row.unknowns:,} open", palette.ink
        else:
            text, color = f"{row.unknowns:,}", palette.weak
        axes.annotate(
            text,
            (1, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=color,
            annotation_clip=False,
        )
    axes.set_yticks(places, [plain(row.name, NAME_LENGTH) for row in rows])
    # The input at the top.
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes.set_xlabel(
        "share of the layer's input that its linear equations determine",
        color=palette.ink,
        fontsize=10,
    )
    return figure
