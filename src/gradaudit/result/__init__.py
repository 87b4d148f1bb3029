"""The result of an audit, and the files it is kept in."""

from gradaudit.result.result import AuditResult

__all__ = ["AuditResult"]
