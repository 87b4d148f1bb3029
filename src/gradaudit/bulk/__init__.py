"""Many captured updates: one result each, kept as it ends, and a summary of all."""

from gradaudit.bulk.find import is_many
from gradaudit.bulk.reading import Reading
from gradaudit.bulk.row import Row
from gradaudit.bulk.run import audit_many
from gradaudit.bulk.settings import AuditSettings
from gradaudit.bulk.summary import Summary

__all__ = ["AuditSettings", "Reading", "Row", "Summary", "audit_many", "is_many"]
