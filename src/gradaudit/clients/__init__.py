"""Simulated clients: from a model and records to the update it would send, and the truth."""

from gradaudit.clients.fedavg import FedAvg
from gradaudit.clients.fedsgd import FedSGD

__all__ = ["FedAvg", "FedSGD"]
