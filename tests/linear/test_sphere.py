"""Descent on the sphere; step by step against geoopt in tests/oracles/test_geoopt.py."""

from __future__ import annotations

import itertools

import pytest
import torch

from gradaudit.linear.sphere import (
    ProjectedGradient,
    RiemannianAdam,
    cosine_rates,
    descend,
    tangent_part,
)
from linear.planted import seeded


def points_of(count: int, size: int, seed: int = 0) -> torch.Tensor:
    points = torch.randn(count, size, generator=seeded(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(points, dim=1)


def test_tangent_parts_are_orthogonal_to_their_points_and_idempotent():
    points, vectors = points_of(7, 5), points_of(7, 5, 1) * 3
    tangent = tangent_part(points, vectors)
    assert float((tangent * points).sum(1).abs().max()) < 1e-14
    assert torch.allclose(tangent_part(points, tangent), tangent, atol=1e-14)


@pytest.mark.parametrize("optimizer", [RiemannianAdam, ProjectedGradient])
def test_the_smallest_eigenvector_is_found(optimizer):
    # The Rayleigh quotient has no other minimum than the eigenvector, up to sign.
    matrix = torch.diag(torch.tensor([0.1, 1.0, 1.5, 2.0], dtype=torch.float64))
    rates = cosine_rates(0.3, 1e-4, 400)
    end = descend(points_of(20, 4), lambda q: q @ matrix, optimizer(), rates)
    assert torch.allclose(end.norm(dim=1), torch.ones(20, dtype=torch.float64))
    assert float((1 - end[:, 0].abs()).max()) < 1e-6


@pytest.mark.parametrize("optimizer", [RiemannianAdam, ProjectedGradient])
def test_points_do_not_influence_each_other(optimizer):
    matrix = torch.diag(torch.arange(1.0, 5.0, dtype=torch.float64))
    starts, rates = points_of(6, 4), cosine_rates(0.3, 0.1, 30)
    together = descend(starts, lambda q: q @ matrix, optimizer(), rates)
    alone = [descend(q[None], lambda q: q @ matrix, optimizer(), rates) for q in starts]
    assert torch.allclose(together, torch.cat(alone), atol=1e-14)


def test_adam_does_not_see_the_gradients_scale_nor_the_coordinates():
    starts, rates = points_of(6, 4), cosine_rates(0.2, 0.1, 30)
    matrix = torch.diag(torch.arange(1.0, 5.0, dtype=torch.float64))
    plain = descend(starts, lambda q: q @ matrix, RiemannianAdam(), rates)
    scaled = descend(starts, lambda q: 1e3 * (q @ matrix), RiemannianAdam(), rates)
    # The two differ by epsilon beside gradients of about 1.
    assert torch.allclose(plain, scaled, atol=1e-5)
    turn = torch.linalg.qr(points_of(4, 4, 3)).Q
    turned = descend(starts @ turn, lambda q: q @ turn.T @ matrix @ turn, RiemannianAdam(), rates)
    assert torch.allclose(plain @ turn, turned, atol=1e-9)


def test_rates_fall_from_the_first_to_the_last():
    rates = cosine_rates(0.3, 0.003, 50)
    assert rates[0] == pytest.approx(0.3)
    assert rates[-1] == pytest.approx(0.003)
    assert all(later < earlier for earlier, later in itertools.pairwise(rates))
