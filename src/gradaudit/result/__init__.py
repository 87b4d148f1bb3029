"""The result of an audit, the files it is kept in, and how two of them differ."""

from gradaudit.result.request import Request
from gradaudit.result.result import AuditResult

__all__ = ["AuditResult", "Request"]
