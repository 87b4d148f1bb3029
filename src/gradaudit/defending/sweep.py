"""The search over a grid: simulate, audit and compare at every point, with every seed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from gradaudit.budget import Budget, Control, Progress
from gradaudit.data import Source
from gradaudit.defending.accuracy import records_of, train
from gradaudit.defending.curve import DefenseCurve, Point
from gradaudit.defending.measure import measure
from gradaudit.defending.privacy import Accounting, Privacy, privacy_of
from gradaudit.defending.run import Run
from gradaudit.defending.setting import Setting
from gradaudit.defending.simulation import simulate
from gradaudit.defending.store import Store
from gradaudit.defending.training import Trained, Training
from gradaudit.errors import InputError, MissingExtraError
from gradaudit.version import __version__

# A mean error of a tenth of the range: an image that a person recognises.
CLOSE_PSNR = 20.0
SECONDS = 60.0


@dataclass(frozen=True)
class Plan:
    """What all points of a curve share.

    Attributes:
        seeds: Of the audits of each point; each draws a batch and a network of its own.
        attack: As `gradaudit.audit` takes it.
        loss: The client's, by name.
        dtype: What the client computes in, ``"float32"`` or ``"float64"``.
        seconds: Time limit of an audit, or None.
        close_psnr: From this PSNR, in dB, a record counts as close, certified or not.
        accounting: What the guarantee of DP-SGD is counted over; None leaves it out.
        training: How to train for the accuracy; None trains nothing.
        device: As `gradaudit.audit` takes it.
    """

    seeds: Sequence[int] = (0, 1, 2)
    attack: str = "auto"
    loss: str = "cross_entropy"
    dtype: str = "float32"
    seconds: float | None = SECONDS
    close_psnr: float = CLOSE_PSNR
    accounting: Accounting | None = field(default_factory=Accounting)
    training: Training | None = None
    device: str = "auto"


def defense_curve(
    source: Source,
    settings: Sequence[Setting],
    plan: Plan | None = None,
    *,
    folder: str | Path | None = None,
    control: Control | None = None,
) -> DefenseCurve:
    """Measure what an attack recovers at every point of a grid.

    One seed is taken to all points before the next one, so that a search that is stopped early has
    something of each. The audit is given the network and the loss, as a server has them, and
    never the truth.

    Args:
        source: Where the client's records come from.
        settings: The points; see `grid`.
        plan: What all points share.
        folder: Audits that have ended are kept here and recognised, by the update's digest and the
            audit's settings, when the same is asked for again.
        control: To watch or stop the search from outside; its budget is not looked at.

    Returns:
        The points, as far as the search came.

    Raises:
        InputError: Source, settings and plan do not fit each other.

    Example:
        >>> from gradaudit.data import load_source
        >>> from gradaudit.defending import grid
        >>> points = grid(batch_sizes=[3], widths=[60], defenses=["none", "sign"])
        >>> plan = Plan(seeds=[0], dtype="float64", accounting=None)
        >>> curve = defense_curve(load_source("patches?size=6"), points, plan)
        >>> [(point.setting.defense, point.certified) for point in curve.points]
        [('none', 3), ('sign', 0)]
    """
    plan = plan or Plan()
    if not settings or not plan.seeds:
        raise InputError("settings, seeds", "nothing to try", "one of each, or more")
    if not math.isfinite(plan.close_psnr):
        raise InputError("close_psnr", repr(plan.close_psnr), "a number of decibels")
    search = _Search(source, plan, Store(folder), control or Control(), len(settings))
    privacies, notes = _privacies(settings, plan, records_of(source))
    runs: dict[Setting, list[Run]] = {setting: [] for setting in settings}
    for seed in plan.seeds:
        for setting in settings:
            run = search.audit(setting, seed)
            if run is not None:
                runs[setting].append(run)
    trained = {setting: search.train(setting) for setting in settings}
    return DefenseCurve(
        source=source.name,
        points=tuple(
            Point(
                setting,
                tuple(runs[setting]),
                plan.close_psnr,
                privacies[setting],
                trained[setting],
            )
            for setting in settings
        ),
        seeds=tuple(plan.seeds),
        attack=plan.attack,
        loss=plan.loss,
        dtype=plan.dtype,
        seconds=plan.seconds,
        close_psnr=plan.close_psnr,
        training=plan.training,
        complete=not search.stopped,
        notes=notes,
        versions={"gradaudit": __version__, "torch": torch.__version__},
    )


def _privacies(
    settings: Sequence[Setting], plan: Plan, records: int | None
) -> tuple[dict[Setting, Privacy | None], tuple[str, ...]]:
    """The guarantees, and why one is missing."""
    accounting = plan.accounting
    if accounting is None:
        return dict.fromkeys(settings), ()
    if plan.training is not None:
        # Of the training whose accuracy stands beside it, unless asked otherwise.
        accounting = Accounting(
            accounting.delta,
            accounting.records or plan.training.split(records)[0],
            accounting.steps or plan.training.rounds,
        )
    try:
        return {setting: privacy_of(setting, accounting, records) for setting in settings}, ()
    except MissingExtraError as error:
        return dict.fromkeys(settings), (f"Without epsilon, as {error}.",)


class _Search:
    """The audits of one curve: what is done, what is left, and how long it may take."""

    def __init__(
        self, source: Source, plan: Plan, store: Store, control: Control, points: int
    ) -> None:
        self.source, self.plan, self.store, self.control = source, plan, store, control
        self.stopped = False
        per_point = len(plan.seeds) + (plan.training is not None)
        self._total = points * per_point
        self._done = 0
        self._worked = 0
        self._started = time.monotonic()

    def audit(self, setting: Setting, seed: int) -> Run | None:
        """One audit, from the store if it is there; None once the search is stopped."""
        plan = self.plan
        if self._is_stopped():
            return None
        simulation = simulate(self.source, setting, seed, loss=plan.loss, dtype=plan.dtype)
        of: dict[str, Any] = {
            "update": simulation.update.sha256(),
            "seed": seed,
            "attack": plan.attack,
            "loss": plan.loss,
            "seconds": plan.seconds,
            "version": __version__,
        }
        run = self.store.read(Run, of)
        if run is None:
            limited = self.control.fresh(Budget(plan.seconds))
            if self.control.listener is not None:
                limited.listener = lambda progress: self._tell(setting, progress.phase)
            run = measure(
                simulation,
                loss=plan.loss,
                attack=plan.attack,
                seed=seed,
                device=plan.device,
                control=limited,
            )
            self._worked += 1
            # What an interrupted audit has found is not what it would have.
            if self._is_stopped():
                return None
            self.store.write(run, of)
        self._done += 1
        return run

    def train(self, setting: Setting) -> Trained | None:
        """The accuracy after training with a setting's defences, if it is asked for."""
        plan, seed = self.plan, self.plan.seeds[0]
        if plan.training is None or self._is_stopped():
            return None
        self._tell(setting, "training for accuracy")
        first = simulate(self.source, setting, seed, loss=plan.loss, dtype=plan.dtype)
        of = {
            "training": asdict(plan.training),
            "update": first.update.sha256(),
            "seed": seed,
            "version": __version__,
        }
        trained = self.store.read(Trained, of)
        if trained is None:
            trained = train(
                self.source,
                setting,
                plan.training,
                loss=plan.loss,
                dtype=plan.dtype,
                seed=seed,
                control=self.control,
            )
            self._worked += 1
            if trained is None:
                return None
            self.store.write(trained, of)
        self._done += 1
        return trained

    def _is_stopped(self) -> bool:
        self.stopped = self.stopped or self.control.interrupted
        return self.stopped

    def _tell(self, setting: Setting, phase: str) -> None:
        if self.control.listener is None:
            return
        each = (time.monotonic() - self._started) / max(1, self._worked)
        left = each * (self._total - self._done) if self._worked else None
        # The one at work; what was done before it needs no line.
        number = min(self._done + 1, self._total)
        what = f"{number} of {self._total}: {setting.batch_size} records, {setting.defense}"
        self.control.listener(
            Progress(
                f"{what}: {phase}",
                elapsed_seconds=self.control.elapsed_seconds,
                seconds_left=left,
            )
        )
