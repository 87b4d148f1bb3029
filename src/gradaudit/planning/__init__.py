"""What to expect of every attack on a client that does not exist yet, from sizes alone."""

from gradaudit.planning.client import PlannedClient
from gradaudit.planning.plan import plan
from gradaudit.planning.result import Expectation, Plan

__all__ = ["Expectation", "Plan", "PlannedClient", "plan"]
