"""The iteration moves rough directions towards true ones, and away from what is known."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from gradaudit.linear.moment import Phase, iterate, judge
from gradaudit.linear.pairs import record_link
from linear.planted import gaussian, plant


@pytest.fixture(scope="module")
def layer():
    problem = (planted := plant(gaussian(30, 80, 1), width=300)).problem
    basis, triangle = torch.linalg.qr(problem.unit_rows)
    scale = len(basis) ** 0.5
    features = torch.linalg.qr(problem.activation_map[problem.live]).Q * scale
    true = normalize(planted.true_directions @ triangle.T, dim=1)
    return basis * scale, features, record_link(problem, features, triangle), true


def from_rows(layer, phase: Phase, away_from=None):
    rows, features, link, _ = layer
    span = rows.new_zeros(rows.shape[1], 0) if away_from is None else away_from
    return iterate(rows, features, link, rows, (phase,), away_from=span)


def arrived(layer, directions) -> float:
    return float(((directions @ layer[3].T).abs().amax(1) > 0.7).double().mean())


def test_more_starts_arrive_with_the_tie_than_without(layer):
    alone = arrived(layer, from_rows(layer, Phase(60, tie=0.0, contrast=2.0)))
    tied = arrived(layer, from_rows(layer, Phase(60, tie=2.0, contrast=1.0)))
    assert tied > 0.8
    assert tied > alone


def test_the_sign_of_a_direction_is_settled_by_its_half_space(layer):
    true = layer[3]
    found = from_rows(layer, Phase(60, tie=2.0, contrast=1.0))
    nearest = (found @ true.T).abs().argmax(1)
    close = (found * true[nearest]).sum(1)
    close = close[close.abs() > 0.7]
    # True directions are those whose own half-space is their active side.
    assert float((close > 0).double().mean()) > 0.9


def test_directions_stay_orthogonal_to_what_is_to_be_avoided(layer):
    span = torch.linalg.qr(layer[3][:5].T).Q
    for phase in (Phase(0, tie=2.0, contrast=1.0), Phase(30, tie=4.0, contrast=0.5, pull=0.05)):
        found = from_rows(layer, phase, span)
        assert float((found @ span).abs().max()) < 1e-12
        assert torch.allclose(found.norm(dim=1), torch.ones(len(found)).to(found))


def test_true_directions_rank_above_random_ones_and_sums(layer):
    rows, features, link, true = layer
    random = normalize(gaussian(30, 30, 2), dim=1)
    sums = normalize(true + true.roll(1, dims=0), dim=1)
    _, score = judge(rows, features, link, torch.cat([true, random, sums]), 2.0)
    assert float(score[:30].min()) > float(score[30:60].max())
    assert float(score[:30].mean()) > float(score[60:].mean())


def test_the_half_space_of_a_true_direction_is_where_it_does_not_vanish(layer):
    rows, features, link, true = layer
    sides, _ = judge(rows, features, link, true, 2.0)
    active = (true @ rows.T).abs() > 1e-8
    agreement = ((sides > 0) == active).double().mean(1)
    assert float(agreement.mean()) > 0.85
