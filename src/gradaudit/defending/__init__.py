"""Defences tried on a simulated client: what each leaves to an attack, and what it costs.

`defense_curve` simulates the client at every point of a grid, audits what it sends, and compares
what the audit found with the truth, which is known in a simulation.
"""

from gradaudit.defending.answer import Answer, answers
from gradaudit.defending.curve import DefenseCurve, Point
from gradaudit.defending.grid import USUAL_DEFENSES, grid
from gradaudit.defending.privacy import Accounting
from gradaudit.defending.run import RecordOutcome, Run
from gradaudit.defending.setting import Setting
from gradaudit.defending.sweep import Plan, defense_curve
from gradaudit.defending.training import Training

__all__ = [
    "USUAL_DEFENSES",
    "Accounting",
    "Answer",
    "DefenseCurve",
    "Plan",
    "Point",
    "RecordOutcome",
    "Run",
    "Setting",
    "Training",
    "answers",
    "defense_curve",
    "grid",
]
