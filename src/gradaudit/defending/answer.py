"""The cheapest defence tried under which an attack recovered nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradaudit.defending.curve import DefenseCurve, Point
from gradaudit.defending.setting import Setting


@dataclass(frozen=True)
class Answer:
    """For one client, the cheapest of the defences tried.

    Attributes:
        client: The client, without a defence.
        tried: Points of this client that were audited.
        cheapest: Of those at which no record was certified and none came close, the one that
            costs least; None if there is none.
        by: What counts as cost: ``"accuracy"``, lost by a model that is trained so, where it is
            known at every point that is compared; else ``"distortion"`` of what is sent.

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
    accuracies = [point.accuracy for point in nothing if point.accuracy is not None]
    by_accuracy = bool(nothing) and len(accuracies) == len(nothing)

    def cost(point: Point) -> tuple[float, float]:
        lost = 1.0 - (point.accuracy or 0.0) if by_accuracy else 0.0
        return lost, point.distortion or 0.0

    return Answer(
        points[0].setting.client,
        len(points),
        min(nothing, key=cost, default=None),
        "accuracy" if by_accuracy else "distortion",
    )
