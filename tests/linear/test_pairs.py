"""A direction says something of its record, and a known one where no other can be."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from gradaudit.linear.pairs import record_link, record_rows
from gradaudit.linear.problem import Setting, build_problem
from gradaudit.update import LinearLayer
from linear.planted import Planted, gaussian, plant


def true_rows(planted: Planted) -> torch.Tensor:
    """The rows of Q^-1, of unit norm, in the order of the records."""
    factors = planted.problem.factors
    return normalize(planted.records @ factors.right / factors.values, dim=1)


@pytest.fixture(scope="module", params=[True, False], ids=["bias", "no bias"])
def planted(request):
    return plant(gaussian(40, 100, 1), width=300, bias=request.param)


def test_the_rows_are_those_of_the_inverse(planted):
    product = true_rows(planted) @ planted.true_directions.T
    off = product - torch.diag(product.diagonal())
    assert float(off.abs().max()) < 1e-10
    assert float(product.diagonal().min()) > 0.5


def test_a_direction_implies_most_of_its_records_half_space(planted):
    problem = planted.problem
    basis, triangle = torch.linalg.qr(problem.unit_rows)
    features = torch.linalg.qr(problem.activation_map[problem.live]).Q * len(basis) ** 0.5
    link = record_link(problem, features, triangle)
    implied = normalize(planted.true_directions @ triangle.T @ link.T, dim=1)
    true = normalize(
        true_rows(planted) @ (features.T @ problem.activation_map[problem.live, :40]).T, dim=1
    )
    agreement = implied @ true.T
    assert float(agreement.diagonal().mean()) > 0.6
    # And nobody else's: unrelated unit vectors in 40 dimensions agree by 0.16.
    others = agreement - torch.diag(agreement.diagonal())
    assert float(others.abs().mean()) < 0.2


def test_rows_of_known_directions_are_nearly_the_true_ones_whatever_their_signs(planted):
    true, directions = true_rows(planted), planted.true_directions
    signs = torch.where(torch.arange(len(true)) % 2 == 0, 1.0, -1.0)[:, None].to(true)
    found = normalize(record_rows(planted.problem, directions), dim=1)
    assert float((found * true).sum(1).min()) > 0.85
    flipped = normalize(record_rows(planted.problem, signs * directions), dim=1)
    assert torch.allclose(found, flipped, atol=1e-5)


def test_what_is_left_of_the_other_directions_is_nearly_all_of_them(planted):
    known, others = planted.true_directions[:20], planted.true_directions[20:]
    span = torch.linalg.qr(record_rows(planted.problem, known).T).Q
    left = [(found - (found @ span) @ span.T).norm(dim=1) for found in (known, others)]
    assert float(left[1].min()) > 0.85
    assert float(left[0].max()) < 0.75


def test_a_bias_without_its_gradient_is_a_column_of_its_own():
    whole = plant(gaussian(20, 60, 1), width=200)
    layer = whole.layer
    without = build_problem(
        LinearLayer(layer.name, layer.weight, layer.bias, layer.weight_gradient, None),
        whole.problem.factors,
        Setting.SPARSE_GRADIENT,
    )
    assert without.activation_map.shape[1] == 21
    found = normalize(record_rows(without, whole.true_directions), dim=1)
    assert float((found * true_rows(whole)).sum(1).min()) > 0.8
