"""The two pictures of a result: singular values, and which neurons saw which record."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from gradaudit.errors import require
from gradaudit.evidence import Spectrum
from gradaudit.report.images import data_uri
from gradaudit.report.text import count, number

# More singular values than these beyond the rank add bulk and show nothing.
MARGIN = 40
# Above this many neurons or records, neighbours are averaged: a screen has no more pixels.
MAX_CELLS = 600


@dataclass(frozen=True)
class Palette:
    """Colours of one colour scheme; the background is the page's."""

    ink: str
    faint: str
    strong: str
    weak: str
    paper: str


LIGHT = Palette(ink="#22303c", faint="#d5dbe0", strong="#1f5a8a", weak="#9aa7b2", paper="#ffffff")
DARK = Palette(ink="#d9e0e6", faint="#3a4651", strong="#7fb4e0", weak="#75838f", paper="#1b232a")


@dataclass(frozen=True)
class Picture:
    """One picture in both colour schemes.

    Attributes:
        light: ``data:`` URI of an SVG for a light page.
        dark: The same for a dark page.
        alternative: What it shows, in words.
    """

    light: str
    dark: str
    alternative: str


def spectrum_picture(spectrum: Spectrum) -> Picture | None:
    """Singular values on a log scale, with the threshold and the rank.

    Args:
        spectrum: The singular values; those that are not positive are drawn at the lower edge.

    Returns:
        The picture, or None when no value is positive.

    Raises:
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> spectrum = Spectrum((4.0, 1.0, 1e-9), 2, 1e-6, 1e9, True, 3, 0.0, "")
        >>> spectrum_picture(spectrum).alternative
        '3 singular values on a log scale: 2 above the threshold of 1.00 × 10⁻⁶, 1 below.'
    """
    values = np.asarray(spectrum.singular_values, dtype=np.float64)
    positive = values[np.isfinite(values) & (values > 0)]
    if not positive.size:
        return None
    rank = spectrum.numerical_rank
    shown = values[: rank + max(MARGIN, rank)]
    alternative = (
        f"{count(len(values), 'singular value')} on a log scale: {rank:,} above the threshold of "
        f"{number(spectrum.threshold)}, {len(values) - rank:,} below."
    )
    if len(shown) < len(values):
        alternative += f" The first {len(shown):,} are drawn."
    light, dark = (_draw_spectrum(shown, positive.min(), spectrum, p) for p in (LIGHT, DARK))
    return Picture(light, dark, alternative)


def sparsity_picture(
    activation_gradients: Shaped[np.ndarray, "m b"], tolerance: float = 1e-9
) -> Picture | None:
    """Which neurons passed a gradient back for which record.

    Records are sorted by how many neurons are theirs, neurons so that equal patterns lie together.

    Args:
        activation_gradients: Loss gradient at the layer's output, one column a record.
        tolerance: Entries below this times the column's largest are drawn as zero; rounding
            leaves those.

    Returns:
        The picture, or None without records or neurons.

    Raises:
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> sparsity_picture(np.array([[1.0, 0.0], [2.0, 3.0]])).alternative
        'Pattern of 2 records and 2 neurons: 75 % of the entries are not zero.'
    """
    values = np.nan_to_num(np.abs(np.asarray(activation_gradients, dtype=np.float64)), posinf=1.0)
    if not values.size:
        return None
    pattern = (values > tolerance * values.max(axis=0, keepdims=True)).T
    share = 100 * float(pattern.mean())
    records, neurons = pattern.shape
    alternative = (
        f"Pattern of {count(records, 'record')} and {count(neurons, 'neuron')}: "
        f"{number(share, 2)} % of the entries are not zero."
    )
    shares = _coarser(_sorted_pattern(pattern))
    light, dark = (_draw_sparsity(shares, pattern.shape, p) for p in (LIGHT, DARK))
    return Picture(light, dark, alternative)


def _sorted_pattern(pattern: Bool[np.ndarray, "b m"]) -> Bool[np.ndarray, "b m"]:
    by_record = pattern[np.argsort(-pattern.sum(axis=1), kind="stable")]
    # lexsort takes its last key first: the first record splits the neurons, then the second.
    return by_record[:, np.lexsort(~by_record[::-1])]


def _coarser(pattern: Bool[np.ndarray, "b m"]) -> Float[np.ndarray, "rows columns"]:
    """Average neighbours until there are few enough cells."""
    shares = pattern.astype(np.float64)
    for axis in (0, 1):
        size = shares.shape[axis]
        if size > MAX_CELLS:
            starts = np.linspace(0, size, MAX_CELLS, endpoint=False).astype(int)
            widths = np.diff(np.append(starts, size))
            shape = (-1, 1) if axis == 0 else (1, -1)
            shares = np.add.reduceat(shares, starts, axis=axis) / widths.reshape(shape)
    return shares


def new_axes(palette: Palette, height: float) -> tuple[Any, Any]:
    """A figure and its axes in the report's style; the height is in inches."""
    # Figure without pyplot: no window system, no global figure that somebody must close.
    figure = require("matplotlib.figure", "report").Figure(
        figsize=(5.0, height), layout="constrained", facecolor="none"
    )
    axes = figure.add_subplot(facecolor="none")
    axes.tick_params(colors=palette.ink, labelsize=9)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(palette.weak)
    return figure, axes


def _label(axes: Any, palette: Palette, horizontal: str, vertical: str) -> None:
    axes.set_xlabel(horizontal, color=palette.ink, fontsize=10)
    axes.set_ylabel(vertical, color=palette.ink, fontsize=10)


def svg_bytes(figure: Any) -> bytes:
    """A figure as SVG, the same bytes for the same figure."""
    matplotlib = require("matplotlib", "report")
    stream = io.BytesIO()
    # A fixed salt and no date: one result gives one report, byte for byte.
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "gradaudit"}):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return stream.getvalue()


def _svg_uri(figure: Any) -> str:
    return data_uri(svg_bytes(figure), "image/svg+xml")


def _draw_spectrum(
    shown: Float[np.ndarray, " k"], smallest: float, spectrum: Spectrum, palette: Palette
) -> str:
    figure, axes = new_axes(palette, 2.3)
    floor = smallest / 3
    # Beyond these bounds, logarithmic axes overflow.
    drawn = np.clip(np.where(np.isfinite(shown), np.maximum(shown, floor), floor), 1e-150, 1e150)
    threshold = spectrum.threshold
    has_threshold = 1e-150 < threshold < 1e150
    levels = [*drawn, threshold] if has_threshold else drawn
    places = np.arange(1, len(shown) + 1)
    rank = spectrum.numerical_rank
    axes.set_yscale("log")
    axes.set_ylim(min(levels) / 4, max(levels) * 4)
    axes.grid(axis="y", color=palette.faint, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.plot(places[:rank], drawn[:rank], "o", markersize=4, color=palette.strong)
    axes.plot(
        places[rank:], drawn[rank:], "o", markersize=4, markerfacecolor="none", color=palette.weak
    )
    left, right = 0.5, len(shown) + 0.5
    axes.set_xlim(left, right)
    write = {"color": palette.ink, "fontsize": 9}
    if has_threshold:
        axes.axhline(threshold, color=palette.ink, linewidth=0.9, linestyle="--")
        axes.annotate(
            "threshold",
            (1, threshold),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 3),
            textcoords="offset points",
            ha="right",
            **write,
        )
    if 0 < rank <= len(shown):
        axes.axvline(rank + 0.5, color=palette.ink, linewidth=0.9)
        # Beside the line on the side that has room.
        roomy = rank + 0.5 < left + 0.7 * (right - left)
        axes.annotate(
            f"rank {rank:,}",
            (rank + 0.5, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4 if roomy else -4, -2),
            textcoords="offset points",
            ha="left" if roomy else "right",
            va="top",
            **write,
        )
    axes.xaxis.get_major_locator().set_params(integer=True)
    _label(axes, palette, "singular value, from the largest", "size")
    return _svg_uri(figure)


def _draw_sparsity(
    shares: Float[np.ndarray, "rows columns"], shape: tuple[int, int], palette: Palette
) -> str:
    colors = require("matplotlib.colors", "report")
    records, neurons = shape
    figure, axes = new_axes(palette, min(3.4, 1.1 + 0.07 * len(shares)))
    scheme = colors.LinearSegmentedColormap.from_list("share", [palette.faint, palette.strong])
    axes.imshow(
        shares,
        aspect="auto",
        interpolation="nearest",
        cmap=scheme,
        vmin=0,
        vmax=1,
        extent=(0.5, neurons + 0.5, records + 0.5, 0.5),
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)
    _label(axes, palette, "neurons, equal patterns together", "records")
    return _svg_uri(figure)
