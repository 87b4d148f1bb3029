"""Points and curves without an audit, for what only reads them."""

from __future__ import annotations

import math

from gradaudit.defending import DefenseCurve, Point, RecordOutcome, Run, Setting
from gradaudit.defending.privacy import Privacy
from gradaudit.defending.training import Trained
from gradaudit.evidence import Status

RECORDS = 4


def make_run(certified: int = 0, close: int = 0, *, distortion: float = 0.0, seed: int = 0) -> Run:
    """A run in which so many records were certified, and so many more are at 25 dB."""
    matched = [RecordOutcome(True, 1e-6, 2e-6, 110.0)] * certified
    matched += [RecordOutcome(False, 0.2, 0.3, 25.0)] * close
    status = Status.NOT_RECOVERED
    if certified:
        status = Status.RECOVERED if certified == RECORDS else Status.PARTIAL
    outcome = (status, "", "halfspace", certified, tuple(matched), 2.0)
    return Run(seed, "0" * 64, distortion, None, RECORDS, *outcome)


def make_point(
    *defenses: str,
    runs: tuple[Run, ...] = (),
    accuracy: float | None = None,
    held_out: int = 100,
    epsilon: float = 0,
) -> Point:
    """A point of a client with four records."""
    privacy = Privacy(epsilon, 1e-5, 1.0, 0.1, 10) if epsilon else None
    trained = None if accuracy is None else Trained(accuracy, held_out)
    setting = Setting(RECORDS, width=30, defenses=defenses)
    return Point(setting, runs or (make_run(),), 20.0, privacy, trained)


def make_curve(*points: Point) -> DefenseCurve:
    """Those points, as if they had been asked for."""
    return DefenseCurve("patches", points, (0,), "auto", "cross_entropy", "float32", 60.0, 20.0)


def noise_curve() -> DefenseCurve:
    """Less is recovered with more noise, and epsilon falls."""
    return make_curve(
        make_point(runs=(make_run(4),)),
        *(
            make_point(
                f"dp-sgd:clip=1,noise_multiplier={sigma}",
                runs=(make_run(certified, close, distortion=distortion),),
                epsilon=epsilon,
            )
            for sigma, certified, close, distortion, epsilon in (
                ("0", 4, 0, 0.1, math.inf),
                ("1e-6", 4, 0, 0.1, 7e13),
                ("1e-4", 1, 2, 0.2, 7e9),
                ("1", 0, 0, 0.99, 1.5),
            )
        ),
    )
