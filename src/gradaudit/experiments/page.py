"""An experiment's page: the table, the figure, and where both are from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradaudit.errors import require
from gradaudit.experiments.experiment import Experiment
from gradaudit.experiments.rows import Rows
from gradaudit.experiments.scale import STAND_INS
from gradaudit.report.text import duration
from gradaudit.tensorfile import replacing
from gradaudit.version import __version__

FIGURE_INCHES, DOTS_PER_INCH = (7.5, 4.6), 120


def write_page(
    experiment: Experiment, rows: Rows, folder: Path, *, done: int, of: int, figures: bool = True
) -> tuple[Path, Path | None]:
    """Write NAME.md, and NAME.png where figures are wanted.

    Args:
        experiment: Whose rows these are.
        rows: At least one.
        folder: Where to.
        done: Units that are there.
        of: Units of the whole experiment.
        figures: Whether to draw.

    Raises:
        InputError: The folder cannot be written to.
        MissingExtraError: matplotlib is needed to draw.
    """
    page, picture = folder / f"{experiment.NAME}.md", folder / f"{experiment.NAME}.png"
    if figures:
        figure = require("matplotlib.figure", "report").Figure(FIGURE_INCHES, layout="constrained")
        experiment.draw(rows.rows, figure)
        with replacing(picture) as temporary:
            figure.savefig(temporary, dpi=DOTS_PER_INCH, format="png")
    lines = [f"# {experiment.TITLE}", "", f"{experiment.SOURCE}.", "", experiment.DIFFERS, ""]
    if done < of:
        lines += [f"**Incomplete: {done} of {of} units were run.**", ""]
    lines += _markdown(experiment.table(rows.rows))
    if figures:
        lines += ["", f"![{experiment.TITLE}]({picture.name})"]
    with replacing(page) as temporary:
        temporary.write_text("\n".join([*lines, "", *_origin(experiment, rows), ""]), "utf-8")
    return page, picture if figures else None


def _origin(experiment: Experiment, rows: Rows) -> list[str]:
    """By which command, on what, when, and how long."""
    settings = rows.settings
    used = sorted({str(row["data"]) for row in rows.rows if row.get("data")})
    lines = [
        "## Where this is from",
        "",
        f"- `gradaudit experiment {experiment.NAME}`, scale `{settings['name']}`, seed "
        f"{settings['seed']}, gradaudit {__version__}",
        f"- Took {duration(round(rows.seconds))} in all.",
    ]
    if used:
        lines.append("- Data: " + ", ".join(f"`{name}`" for name in used) + ".")
    if any(name in STAND_INS.values() for name in used):
        lines.append(
            "- Not all of the paper's data sets were on the machine: "
            + " and ".join(f"`{name}`" for name in used if name in STAND_INS.values())
            + " stood in."
        )
    for place in rows.environments:
        lines.append("- " + ", ".join(f"{key} {value}" for key, value in place.items()))
    return lines


def _markdown(table: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
    return [lines[0], "|" + "---|" * len(table[0]), *lines[1:]]
