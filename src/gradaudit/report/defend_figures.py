"""The pictures of a defence curve: what each point leaves, and how it falls along one number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradaudit.defending.curve import DefenseCurve, Point
from gradaudit.report.defend_wording import client_text
from gradaudit.report.figures import DARK, LIGHT, Palette, Picture, new_axes, svg_bytes
from gradaudit.report.images import data_uri
from gradaudit.report.text import count, number, plain

# Fewer points along a number make no curve.
LEAST_POINTS = 3
# Beyond so many bars, nobody reads them; the table has all.
MAX_BARS = 60
NAME_LENGTH = 44


@dataclass(frozen=True)
class Series:
    """Points that differ in one number.

    Attributes:
        name: What the number is.
        others: What they have in common, in words.
        points: By that number, ascending, each with its value.
    """

    name: str
    others: str
    points: tuple[tuple[float, Point], ...]


def bars_picture(curve: DefenseCurve) -> Picture | None:
    """One bar a point: the share of records certified, and of those close to the truth.

    Args:
        curve: The points.

    Returns:
        The picture; None where nothing was audited.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    points = [point for point in curve.points if point.runs][:MAX_BARS]
    if not points:
        return None
    several = len({point.setting.client for point in points}) > 1
    names = [_name(point, several) for point in points]
    light, dark = (_uri(_draw_bars(points, names, palette)) for palette in (LIGHT, DARK))
    nothing = sum(point.nothing_recovered for point in points)
    return Picture(
        light,
        dark,
        f"{count(len(points), 'setting')}; under {nothing:,} of them nothing was recovered.",
    )


def series_pictures(curve: DefenseCurve) -> tuple[tuple[Series, Picture], ...]:
    """For every number that varies alone over three points or more, the share along it.

    Args:
        curve: The points.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    pictures = []
    for series in find_series(curve):
        light, dark = (_uri(_draw_series(series, palette)) for palette in (LIGHT, DARK))
        shares = ", ".join(
            f"{number(value)}: {_certified(point):.0%}" for value, point in series.points
        )
        text = f"Share of records certified by {series.name} ({series.others}): {shares}."
        pictures.append((series, Picture(light, dark, text)))
    return tuple(pictures)


def find_series(curve: DefenseCurve) -> tuple[Series, ...]:
    """Groups of points that differ in one number alone.

    Args:
        curve: The points.
    """
    found: dict[tuple[str, str], dict[float, Point]] = {}
    for point in curve.points:
        numbers = point.setting.along()
        for place, (name, value) in enumerate(numbers if point.runs else ()):
            rest = tuple(n for i, n in enumerate(numbers) if i != place)
            # What is no number, such as a model's name, must be alike too.
            words = (point.setting.model, point.setting.training is None)
            found.setdefault((name, repr((rest, words, _kinds(point)))), {})[value] = point
    return tuple(
        Series(name, _common(name, group), tuple(sorted(group.items(), key=lambda item: item[0])))
        for (name, _), group in found.items()
        if len(group) >= LEAST_POINTS
    )


def _kinds(point: Point) -> tuple[str, ...]:
    return tuple(text.partition(":")[0] for text in point.setting.defenses)


def _common(name: str, group: dict[float, Point]) -> str:
    point = next(iter(group.values()))
    if " of " in name:
        return client_text(point.setting.client)
    return plain(point.setting.defense, 120)


def _name(point: Point, several: bool) -> str:
    text = point.setting.defense
    if several:
        text = f"{point.setting.batch_size} rec., {text}"
    return plain(text, NAME_LENGTH)


def _certified(point: Point) -> float:
    return point.certified / point.records


def _uri(figure: Any) -> str:
    return data_uri(svg_bytes(figure), "image/svg+xml")


def _draw_bars(points: Sequence[Point], names: Sequence[str], palette: Palette) -> Any:
    figure, axes = new_axes(palette, 0.9 + 0.24 * len(points))
    places = range(len(points))
    axes.barh(places, [1] * len(points), color=palette.faint, height=0.62)
    axes.barh(places, [p.close / p.records for p in points], color=palette.weak, height=0.62)
    axes.barh(places, [_certified(p) for p in points], color=palette.strong, height=0.62)
    axes.set_yticks(places, names, parse_math=False)
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes.set_xlabel("share of records", color=palette.ink, fontsize=10)
    return figure


def _draw_series(series: Series, palette: Palette) -> Any:
    figure, axes = new_axes(palette, 2.6)
    values = [value for value, _ in series.points]
    positive = [value for value in values if value > 0]
    # A zero among numbers of many sizes is drawn a step below the least of them.
    wide = len(positive) > 1 and max(positive) >= 20 * min(positive)
    drawn = [value if value > 0 or not wide else min(positive) / 10 for value in values]
    if wide:
        axes.set_xscale("log")
    axes.set_xticks(drawn, [_tick(value, point) for value, point in series.points])
    axes.minorticks_off()
    for place, (_, point) in zip(drawn, series.points, strict=True):
        shares = [run.certified / run.batch_size for run in point.runs]
        axes.plot([place] * len(shares), shares, "o", markersize=3, color=palette.weak)
    close = [point.close / point.records for _, point in series.points]
    certified = [_certified(point) for _, point in series.points]
    axes.plot(drawn, close, "--", linewidth=1.2, color=palette.weak)
    axes.plot(drawn, certified, "-", linewidth=1.6, color=palette.strong)
    axes.set_ylim(-0.04, 1.04)
    axes.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes.grid(axis="y", color=palette.faint, linewidth=0.6)
    below = any(point.privacy is not None for _, point in series.points)
    label = plain(series.name, NAME_LENGTH) + (", epsilon below" if below else "")
    axes.set_xlabel(label, color=palette.ink, fontsize=10)
    axes.set_ylabel("share of records", color=palette.ink, fontsize=10)
    return figure


def _tick(value: float, point: Point) -> str:
    if point.privacy is None:
        return number(value)
    epsilon = point.privacy.epsilon
    return f"{number(value)}\n{'∞' if math.isinf(epsilon) else number(epsilon, 2)}"
