"""Updates to be searched in shards, by batch size and width of the first layer."""

from __future__ import annotations

import torch

from gradaudit.bulk import AuditSettings
from gradaudit.clients import FedSGD
from gradaudit.models import mlp

EASY = (20, 200)
HARD = (11, 140)
# With so many submatrices, of the first four shards of HARD the last two complete the batch, and
# this one with less arithmetic than the other.
SETTINGS = AuditSettings(attack="spear", seconds=None, submatrices=5000)
WINNER = 2


def save(path, batch_size, width):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(batch_size, 64, generator=generator).double()
    labels = torch.randint(0, 5, (batch_size,), generator=generator)
    client = FedSGD(mlp(64, [width, width], 5, dtype=torch.float64, seed=1))
    client.update(inputs, labels)[0].save(path)
    return path
