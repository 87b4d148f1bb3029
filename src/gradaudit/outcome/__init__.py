"""What came of an attack on one layer or on a network, in the words of a result."""

from gradaudit.outcome.assumptions import UNCONFIRMED, UNSEEN_NOISE, Hypothesis, assumptions
from gradaudit.outcome.linear import describe
from gradaudit.outcome.outcome import Outcome

__all__ = ["UNCONFIRMED", "UNSEEN_NOISE", "Hypothesis", "Outcome", "assumptions", "describe"]
