from __future__ import annotations

import torch
from torch.nn.functional import normalize

from gradaudit.noisy.expectation import posterior, smallest, two_part_evidence


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_smallest_is_the_generalised_eigenvector():
    # Oracle: the dense symmetric eigenproblem in the metric's coordinates.
    rows, metric = random(80, 6), random(6, seed=1).square() + 0.5
    weights = random(3, 80, seed=2).square()
    current = normalize(random(3, 6, seed=3), dim=1)
    for _ in range(60):
        current = smallest(rows, weights, metric, current)
    for index in range(3):
        scaled = rows * metric.rsqrt()
        gram = scaled.T @ (weights[index, :, None] * scaled)
        expected = normalize(torch.linalg.eigh(gram)[1][:, 0] * metric.rsqrt(), dim=0)
        assert float((expected * current[index]).sum().abs()) > 1 - 1e-9


def test_smallest_keeps_the_sign():
    rows, start = random(50, 4), normalize(random(2, 4, seed=5), dim=1)
    found = smallest(rows, torch.ones(2, 50).double(), torch.ones(4).double(), start)
    assert bool(((found * start).sum(1) > 0).all())
    torch.testing.assert_close(found.norm(dim=1), torch.ones(2).double())


def test_the_posterior_follows_bayes_rule():
    squares = torch.tensor([[0.0, 4.0, 100.0]]).double()
    prior = torch.tensor([[0.5, 0.5, 0.2]]).double()
    narrow = torch.tensor([[1.0]]).double()
    active, wide = posterior(squares, prior, narrow)
    normal = torch.distributions.Normal
    fire = prior * normal(0.0, wide.sqrt()).log_prob(squares.sqrt()).exp()
    rest = (1 - prior) * normal(0.0, 1.0).log_prob(squares.sqrt()).exp()
    torch.testing.assert_close(active, fire / (fire + rest))


def test_active_entries_are_always_wider():
    flat = torch.full((1, 10), 1e-6).double()
    half = torch.full((1, 10), 0.5).double()
    _, wide = posterior(flat, half, torch.ones(1, 1).double())
    assert float(wide) == 1.5


def test_evidence_is_large_for_two_kinds_of_entries_and_not_for_one():
    active = torch.arange(400) < 200
    entries = torch.where(active, 10.0, 0.1) * random(400, seed=7)
    squares = entries.square()[None]
    narrow = torch.tensor([[0.01]]).double()
    told = torch.where(active, 0.99, 0.01).double()[None]
    wrong = told.flip(1)
    wide = torch.tensor([[100.0]]).double()
    right = float(two_part_evidence(squares, told, narrow, wide))
    assert right > 1.5
    assert float(two_part_evidence(squares, wrong, narrow, wide)) < right - 2
    alike = random(1, 400, seed=8).square()
    assert float(two_part_evidence(alike, told, alike.mean(1, True), alike.mean(1, True))) < 0.01
