"""Audit federated-learning updates: recover, and prove, the private records a gradient reveals."""

from gradaudit.version import __version__

__all__ = ["__version__"]
