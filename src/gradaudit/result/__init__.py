"""The result of an audit, the files it is kept in, and how two of them differ."""

from gradaudit.result.repetition import Repetition, Sameness, compare_results
from gradaudit.result.request import Request
from gradaudit.result.result import AuditResult

__all__ = ["AuditResult", "Repetition", "Request", "Sameness", "compare_results"]
