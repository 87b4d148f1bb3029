"""Running an experiment: the units that are missing, and then its page."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradaudit.budget import Budget, Control, Progress
from gradaudit.engine import Engine, InProcess, Unit
from gradaudit.experiments.experiment import Experiment, Row
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
        failed: Of the units that were run and gave no rows, why, in one line.
    """

    units: int
    done: int
    page: Path | None = None
    figure: Path | None = None
    failed: Mapping[str, str] = field(default_factory=dict)


def run_experiment(
    experiment: Experiment,
    scale: Scale,
    folder: Path,
    *,
    control: Control | None = None,
    again: bool = False,
    figures: bool = True,
    engine: Engine | None = None,
) -> Ran:
    """Run what the folder does not have yet, and write rows, table and figure.

    Every unit is on the disk as soon as it is done, and its rows do not depend on the engine, but
    for times. One that is interrupted, or that fails, is not kept.

    Args:
        experiment: Which; with an engine of other processes, one that `load` has given.
        scale: How large.
        folder: For NAME.json, NAME.csv, NAME.md and NAME.png.
        control: To watch and interrupt; its budget is not looked at.
        again: Whether to run again what is there.
        figures: Whether to draw.
        engine: Where units are run, entered; by default, in this process.

    Raises:
        InputError: The folder has rows of other settings, or cannot be written to.
        MissingExtraError: matplotlib is needed to draw.
    """
    control = control or Control()
    rows = Rows(folder / f"{experiment.NAME}.json", scale, again=again)
    units = experiment.units(scale)
    rows.arrange(units)
    missing = {json.dumps(unit): unit for unit in units if unit not in rows}
    watch = _Watch(control, experiment.NAME, len(units), len(missing))
    watched = control.fresh(Budget(None, None))
    watched.listener = watch.hear
    watch.hear(Progress("starting"))
    arguments = {"run": experiment.run, "scale": scale, "seconds": UNIT_SECONDS[scale.name]}
    work = [
        Unit(key, _run_unit, {"unit": unit, **arguments}, controlled=True)
        for key, unit in missing.items()
    ]
    failed: dict[str, str] = {}
    for done in (engine or InProcess()).run(work, watched):
        if done.failure:
            failed[done.key] = done.failure
        else:
            found, place = done.value
            rows.add(missing[done.key], found, seconds=done.seconds, environment=place)
        watch.done += 1
        watch.hear(Progress(""))
    complete = sum(unit in rows for unit in units)
    if not rows.rows:
        return Ran(len(units), complete, failed=failed)
    page, figure = write_page(
        experiment, rows, folder, of=len(units), done=complete, figures=figures
    )
    return Ran(len(units), complete, page, figure, failed)


def _run_unit(
    run: Callable[[Row, Scale, Control], list[dict[str, Any]]],
    unit: Row,
    scale: Scale,
    seconds: float,
    control: Control,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a unit, and what it was run on, which may be another machine than this."""
    return run(unit, scale, control.fresh(Budget(seconds))), machine()


class _Watch:
    """Says how many units are done, and how long the rest will take if it is like those before."""

    def __init__(self, control: Control, name: str, units: int, missing: int) -> None:
        self.done = 0
        self._control, self._name, self._units, self._missing = control, name, units, missing
        self._started = time.monotonic()

    def hear(self, progress: Progress) -> None:
        if self._control.listener is None:
            return
        spent = time.monotonic() - self._started
        left = spent / self.done * (self._missing - self.done) if self.done else None
        done = self._units - self._missing + self.done
        doing = f": {progress.phase}" if progress.phase else ""
        phase = f"{self._name}, {done} of {self._units} done{doing}"
        self._control.listener(Progress(phase, elapsed_seconds=spent, seconds_left=left))
