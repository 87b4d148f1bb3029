"""Audits again, from their results: whether they say the same."""

from gradaudit.rerunning.again import Rerun, budget_of, request_of, rerun

__all__ = ["Rerun", "budget_of", "request_of", "rerun"]
