"""Audit federated-learning updates: recover, and prove, the private records a gradient reveals."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gradaudit.version import __version__

if TYPE_CHECKING:
    from gradaudit import (
        bulk,
        clients,
        data,
        defending,
        defenses,
        gradient_matching,
        metrics,
        models,
        report,
        rgap,
        theory,
    )
    from gradaudit.auditing import audit
    from gradaudit.budget import Budget, Control, Progress
    from gradaudit.bulk import audit_many
    from gradaudit.capture import load_update
    from gradaudit.defending import defense_curve
    from gradaudit.errors import GradauditError, InputError, MissingExtraError
    from gradaudit.evidence import Status
    from gradaudit.gradient_matching import Knowledge, invert_features
    from gradaudit.planning import Plan, plan
    from gradaudit.preprocessing import Column, Preprocessing
    from gradaudit.rank import RankAnalysis, rank_analysis
    from gradaudit.rerunning import Rerun, rerun
    from gradaudit.result import AuditResult
    from gradaudit.truth import Truth
    from gradaudit.update import GradientStep, LocalTraining, Update

# Loaded when first used: torch alone takes a second or two, and `gradaudit --help` needs none.
_MODULES = (
    "bulk",
    "clients",
    "data",
    "defending",
    "defenses",
    "gradient_matching",
    "metrics",
    "models",
    "report",
    "rgap",
    "theory",
)
# Needs an extra, so that it is not in __all__: a star import must not.
_FRAMEWORKS = ("flower", "opacus")
_HOMES = {
    "AuditResult": "result",
    "Budget": "budget",
    "Column": "preprocessing",
    "Control": "budget",
    "GradauditError": "errors",
    "GradientStep": "update",
    "InputError": "errors",
    "Knowledge": "gradient_matching",
    "LocalTraining": "update",
    "MissingExtraError": "errors",
    "Plan": "planning",
    "Preprocessing": "preprocessing",
    "Progress": "budget",
    "RankAnalysis": "rank",
    "Rerun": "rerunning",
    "Status": "evidence",
    "Truth": "truth",
    "Update": "update",
    "audit": "auditing",
    "audit_many": "bulk",
    "defense_curve": "defending",
    "invert_features": "gradient_matching",
    "load_update": "capture",
    "plan": "planning",
    "rank_analysis": "rank",
    "rerun": "rerunning",
}

__all__ = [
    "AuditResult",
    "Budget",
    "Column",
    "Control",
    "GradauditError",
    "GradientStep",
    "InputError",
    "Knowledge",
    "LocalTraining",
    "MissingExtraError",
    "Plan",
    "Preprocessing",
    "Progress",
    "RankAnalysis",
    "Rerun",
    "Status",
    "Truth",
    "Update",
    "__version__",
    "audit",
    "audit_many",
    "bulk",
    "clients",
    "data",
    "defending",
    "defense_curve",
    "defenses",
    "gradient_matching",
    "invert_features",
    "load_update",
    "metrics",
    "models",
    "plan",
    "rank_analysis",
    "report",
    "rerun",
    "rgap",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in (*_MODULES, *_FRAMEWORKS):
        return importlib.import_module(f"gradaudit.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(f"gradaudit.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
