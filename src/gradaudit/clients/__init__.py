"""Simulated clients: from a model and a batch to the update it would send, and the truth."""

from gradaudit.clients.fedsgd import FedSGD

__all__ = ["FedSGD"]
