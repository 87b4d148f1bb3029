"""What the network adds to an audit under noise, and where it has nothing to add."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import gradaudit as ga

FEATURES, BATCH_SIZE, WIDTH = 80, 6, 150
ROUNDS = "polish_rounds"


class Residual(nn.Module):
    """Layers that look like a row by their sizes, and are none."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(FEATURES, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.fc3 = nn.Linear(WIDTH, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.fc1(inputs))
        return self.fc3(hidden + torch.relu(self.fc2(hidden)))


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    records = torch.randn(BATCH_SIZE, FEATURES, generator=generator, dtype=torch.float64)
    return records, torch.arange(BATCH_SIZE) % 4


def row() -> nn.Module:
    return ga.models.mlp(FEATURES, [WIDTH, 60], 4, seed=0, dtype=torch.float64)


def noisy(client_model: nn.Module, share: float, **knowledge: object) -> ga.AuditResult:
    """Audit a gradient with noise of so much of the root mean square of its first layer's."""
    records, labels = batch()
    clean = ga.clients.FedSGD(client_model).update(records, labels)[0]
    first = next(iter(clean.linear_layers())).weight_gradient
    level = share * float(first.square().mean().sqrt())
    client = ga.clients.FedSGD(client_model, defenses=[ga.defenses.GaussianNoise(level)], seed=2)
    return ga.audit(client.update(records, labels)[0], seed=1, **knowledge)


def errors(result: ga.AuditResult) -> Tensor:
    assert result.records is not None
    return (torch.cdist(result.records, batch()[0]) / FEATURES**0.5).amin(1)


def test_the_network_is_read_off_the_weights():
    result = noisy(row(), 0.02)
    assert result.records_recovered == BATCH_SIZE
    assert result.search.counters[ROUNDS] >= 1
    claimed = torch.tensor([record.estimated_error for record in result.evidence])
    # Of 80 entries, an error is within 1.4 of its expectation but for one in 10^6.
    assert bool((errors(result) < 1.4 * claimed).all())


def test_another_network_is_not_taken_for_a_row():
    # Its layers' sizes form a row, so that without the model one is guessed, and contradicted.
    torch.manual_seed(0)
    model = Residual().double()
    result = noisy(model, 0.02, model=model)
    assert result.status.leak_proven
    assert ROUNDS not in result.search.counters


def test_what_the_network_would_spoil_is_left_as_it_was():
    torch.manual_seed(0)
    model = Residual().double()
    given, guessed = noisy(model, 0.02, model=model), noisy(model, 0.02)
    assert guessed.records_recovered >= given.records_recovered


def test_several_steps_have_no_one_gradient():
    records, labels = batch()
    training = ga.LocalTraining(0.05, epochs=2, batch_size=3)
    client = ga.clients.FedAvg(
        row(), training=training, defenses=[ga.defenses.GaussianNoise(1e-6)], seed=2
    )
    result = ga.audit(client.update(records, labels)[0], seed=1)
    assert ROUNDS not in result.search.counters
