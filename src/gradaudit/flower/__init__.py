"""Flower: audits of what a server receives, and a gate before what a client sends.

Needs the extra ``gradaudit[flower]``; see docs/flower.md.
"""

from gradaudit.errors import require

require("flwr", "flower")

# Only now: these build on Flower's classes.
from gradaudit.flower.auditor import Auditor, Examination  # noqa: E402
from gradaudit.flower.gate import Mod, leakage_gate_mod  # noqa: E402
from gradaudit.flower.reading import read_update  # noqa: E402
from gradaudit.flower.strategy import AuditingStrategy, ClientAudit  # noqa: E402

__all__ = [
    "AuditingStrategy",
    "Auditor",
    "ClientAudit",
    "Examination",
    "Mod",
    "leakage_gate_mod",
    "read_update",
]
