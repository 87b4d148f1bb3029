"""Running an experiment: the units that are missing, and then its page."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from gradaudit.budget import Budget, Control, Progress
from gradaudit.experiments.experiment import Experiment
from gradaudit.experiments.machine import machine
from gradaudit.experiments.page import write_page
from gradaudit.experiments.rows import Rows
from gradaudit.experiments.scale import Scale

# Of one unit, unless it ends by itself: that a search does not end in time is a result too.
UNIT_SECONDS = {"quick": 60.0, "standard": 600.0, "full": 3600.0}


@dataclass(frozen=True)
class Ran:
    """What came of a run.

    Attributes:
        units: Of the experiment.
        done: Of these, in this run or before.
        page: The page with the table, or None where no unit is done.
        figure: The figure beside it, or None.
    """

    units: int
    done: int
    page: Path | None = None
    figure: Path | None = None


def run_experiment(
    experiment: Experiment,
    scale: Scale,
    folder: Path,
    *,
    control: Control | None = None,
    again: bool = False,
    figures: bool = True,
) -> Ran:
    """Run what the folder does not have yet, and write rows, table and figure.

    Every unit is on the disk when the next begins. One that is interrupted is not kept.

    Args:
        experiment: Which.
        scale: How large.
        folder: For NAME.json, NAME.csv, NAME.md and NAME.png.
        control: To watch and interrupt; its budget is not looked at.
        again: Whether to run again what is there.
        figures: Whether to draw.

    Raises:
        InputError: The folder has rows of other settings, or cannot be written to.
        MissingExtraError: matplotlib is needed to draw.
    """
    control = control or Control()
    rows = Rows(folder / f"{experiment.NAME}.json", scale, again=again)
    units = experiment.units(scale)
    missing = [unit for unit in units if unit not in rows]
    place, watch = machine(), _Watch(control, experiment.NAME, len(units), len(missing))
    for unit in missing:
        limited = control.fresh(Budget(UNIT_SECONDS[scale.name]))
        limited.listener = watch.hear
        started = time.monotonic()
        watch.hear(Progress("starting"))
        found = experiment.run(unit, scale, limited)
        # What an interrupted search has found is not what it would have.
        if control.interrupted:
            break
        rows.add(unit, found, seconds=time.monotonic() - started, environment=place)
        watch.done += 1
    done = sum(unit in rows for unit in units)
    if not rows.rows:
        return Ran(len(units), done)
    page, figure = write_page(experiment, rows, folder, of=len(units), done=done, figures=figures)
    return Ran(len(units), done, page, figure)


class _Watch:
    """Says which unit is at work, and how long the rest will take if it is like those before."""

    def __init__(self, control: Control, name: str, units: int, missing: int) -> None:
        self.done = 0
        self._control, self._name, self._units, self._missing = control, name, units, missing
        self._started = time.monotonic()

    def hear(self, progress: Progress) -> None:
        if self._control.listener is None:
            return
        spent = time.monotonic() - self._started
        left = spent / self.done * (self._missing - self.done) if self.done else None
        number = self._units - self._missing + self.done + 1
        phase = f"{self._name}, {number} of {self._units}: {progress.phase}"
        self._control.listener(Progress(phase, elapsed_seconds=spent, seconds_left=left))
