"""Audit federated-learning updates: recover, and prove, the private records a gradient reveals."""

from gradaudit import clients, data, metrics, models, report, theory
from gradaudit.audit import audit
from gradaudit.budget import Budget, Control, Progress
from gradaudit.capture import load_update
from gradaudit.errors import GradauditError, InputError, MissingExtraError
from gradaudit.evidence import Status
from gradaudit.preprocessing import Column, Preprocessing
from gradaudit.result import AuditResult
from gradaudit.truth import Truth
from gradaudit.update import GradientStep, Update
from gradaudit.version import __version__

__all__ = [
    "AuditResult",
    "Budget",
    "Column",
    "Control",
    "GradauditError",
    "GradientStep",
    "InputError",
    "MissingExtraError",
    "Preprocessing",
    "Progress",
    "Status",
    "Truth",
    "Update",
    "__version__",
    "audit",
    "clients",
    "data",
    "load_update",
    "metrics",
    "models",
    "report",
    "theory",
]
