"""A plan as one HTML file that needs nothing else: no script, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradaudit.planning.result import (
    CAVEAT,
    GPU_CAVEAT,
    TITLES,
    Change,
    Expectation,
    HeatMap,
    Plan,
)
from gradaudit.report.environment import environment
from gradaudit.report.figures import DARK, LIGHT, Palette, Picture, new_axes, svg_bytes
from gradaudit.report.images import data_uri
from gradaudit.report.text import count, duration, number
from gradaudit.tensorfile import replacing
from gradaudit.version import __version__

NOTHING_TRIED = "no value tried"


def render_plan(plan: Plan, *, title: str | None = None) -> str:
    """Render a plan as a self-contained HTML5 page.

    Args:
        plan: From `gradaudit.plan`.
        title: The page's heading.

    Returns:
        The page; the same plan gives the same text.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    most = max(plan.expectations, key=lambda each: each.records)
    return (
        environment()
        .get_template("plan.html")
        .render(
            title=title or "What a federated-learning client would reveal",
            # Never reassuring: what is not expected of these attacks may be of others.
            tone="leak" if most.records > 0 else "open",
            sentence=sentence(plan),
            caveats=[CAVEAT, GPU_CAVEAT],
            facts=_facts(plan),
            speed=number(1 / plan.machine_factor, 2),
            rows=[attack_row(each) for each in plan.expectations],
            changes=[(TITLES[name], change_row(found)) for name, found in plan.changes.items()],
            picture=None if plan.heat_map is None else heat_picture(plan.heat_map, plan),
            version=__version__,
        )
    )


def write_plan(plan: Plan, path: str | Path, *, title: str | None = None) -> None:
    """Write `render_plan`'s page to a file, atomically.

    Args:
        plan: From `gradaudit.plan`.
        path: The file to write or replace.
        title: As `render_plan` takes it.

    Raises:
        InputError: The path cannot be written to.
        MissingExtraError: matplotlib is not installed.
    """
    page = render_plan(plan, title=title)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def sentence(plan: Plan) -> str:
    """The plan in a sentence.

    Args:
        plan: From `gradaudit.plan`.
    """
    most = max(plan.expectations, key=lambda each: each.records)
    batch = count(plan.client.records, "record")
    if most.records > 0:
        known = f"{number(round(most.records, 1))} of {batch}"
        seconds = duration(most.seconds or 0.0)
        return f"Expected to be recovered: {known}, by {TITLES[most.attack]}, in about {seconds}."
    return f"None of the attacks known here is expected to recover any of {batch}."


def attack_row(each: Expectation) -> tuple[str, str, str, str, str, str]:
    """Attack, records, seconds here, seconds on a GPU, confidence and what limits it, in words.

    Args:
        each: One attack's.
    """
    if not each.applies:
        return (TITLES[each.attack], "does not apply", "", "", "", each.reason)
    here = "does not end" if each.seconds is None else duration(each.seconds)
    guess = "" if each.gpu_seconds is None else duration(each.gpu_seconds)
    records = f"{number(round(each.records, 1))} ({each.share:.0%})"
    return (TITLES[each.attack], records, here, guess, each.confidence, each.reason)


def change_row(found: tuple[Change, ...]) -> list[tuple[str, str]]:
    """Each lever, and the smallest change after which nothing is expected of the attack.

    Args:
        found: Of one attack.
    """
    return [(change.lever, change.value or _in_vain(change)) for change in found]


def _in_vain(change: Change) -> str:
    return NOTHING_TRIED if change.share is None else f"leaves {change.share:.0%}"


def heat_picture(grid: HeatMap, plan: Plan) -> Picture:
    """The expected share of records by batch and width, with the planned client's point.

    Args:
        grid: The map.
        plan: Whose client is marked.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    light, dark = (
        data_uri(svg_bytes(_draw(grid, plan, palette)), "image/svg+xml")
        for palette in (LIGHT, DARK)
    )
    return Picture(
        light,
        dark,
        f"Batches of {grid.batches[0]:,} to {grid.batches[-1]:,} records, widths of "
        f"{grid.widths[0]:,} to {grid.widths[-1]:,} neurons; this client has "
        f"{plan.client.records:,} and {plan.client.width:,}.",
    )


def _facts(plan: Plan) -> list[tuple[str, str]]:
    client = plan.client
    noise = "none" if not client.noise else number(client.noise)
    return [
        ("Records in an update", number(client.records)),
        ("Clients summed", number(client.clients)),
        ("Local steps", number(client.steps)),
        ("First dense layer", f"{client.inputs:,} to {client.width:,}"),
        ("Noise", noise),
        ("Attacker's time", duration(plan.core_seconds)),
    ]


def _draw(grid: HeatMap, plan: Plan, palette: Palette) -> Any:
    from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415 - optional

    figure, axes = new_axes(palette, 3.6)
    colours = LinearSegmentedColormap.from_list("share", [palette.faint, palette.strong])
    axes.imshow(grid.shares, origin="lower", aspect="auto", cmap=colours, vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(grid.batches)), [f"{b:,}" for b in grid.batches], fontsize=8)
    axes.set_yticks(range(len(grid.widths)), [f"{m:,}" for m in grid.widths], fontsize=8)
    place = (grid.batches.index(plan.client.records), grid.widths.index(plan.client.width))
    axes.plot(*place, "o", markersize=9, markerfacecolor=palette.paper, markeredgecolor=palette.ink)
    axes.set_xlabel("records in an update", color=palette.ink, fontsize=10)
    axes.set_ylabel("width", color=palette.ink, fontsize=10)
    return figure
