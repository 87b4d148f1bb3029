"""The cheapest defence tried under which an attack recovered nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gradaudit.defending.curve import DefenseCurve, Point
from gradaudit.defending.setting import Setting

# Standard errors of a difference between two accuracies below which it is taken for chance.
TOLD_APART = 2.0


@dataclass(frozen=True)
class Answer:
    """For one client, the cheapest of the defences tried.

    Attributes:
        client: The client, without a defence.
        tried: Points of this client that were audited.
        cheapest: Of those at which no record was certified and none came close, the one that
            costs least; None if there is none.
        by: What counts as cost: ``"accuracy"`` that a model trained so loses, where it is known at
            every point that is compared, and of those that held-out records do not tell from the
            best the one that distorts least; else ``"distortion"`` of what is sent.

    Example:
        >>> from gradaudit.defending.run import Run
        >>> from gradaudit.evidence import Status
        >>> def point(defense, distortion, certified):
        ...     run = Run(0, "", distortion, None, 8, Status.PARTIAL, "", "", certified, (), 1.0)
        ...     return Point(Setting(8, width=9, defenses=defense), (run,), 20.0)
        >>> points = [point((), 0.0, 8), point(("sign",), 0.6, 0), point(("mask:share=1",), 1.0, 0)]
        >>> answer_for(points).cheapest.setting.defense
        'sign'
    """

    client: Setting
    tried: int
    cheapest: Point | None
    by: str


def answers(curve: DefenseCurve) -> tuple[Answer, ...]:
    """One answer for each client that was audited, in the order of the points."""
    clients = dict.fromkeys(point.setting.client for point in curve.points if point.runs)
    return tuple(
        answer_for([p for p in curve.points if p.runs and p.setting.client == client])
        for client in clients
    )


def answer_for(points: Sequence[Point]) -> Answer:
    """The answer for one client.

    Args:
        points: All of this client, each with a run; at least one.
    """
    nothing = [point for point in points if point.nothing_recovered]
    best = _most_accurate(nothing)
    return Answer(
        points[0].setting.client,
        len(points),
        min(best or nothing, key=lambda point: point.distortion or 0.0, default=None),
        "accuracy" if best else "distortion",
    )


def _most_accurate(points: Sequence[Point]) -> list[Point]:
    """Those as accurate as the best, as far as can be told; none if one is unknown."""
    known = [(point, point.trained) for point in points if point.trained is not None]
    if not known or len(known) < len(points):
        return []
    best = max((trained for _, trained in known), key=lambda trained: trained.accuracy)
    return [
        point
        for point, trained in known
        if best.accuracy - trained.accuracy
        <= TOLD_APART * math.hypot(best.standard_error, trained.standard_error)
    ]
