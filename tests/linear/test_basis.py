"""Bases: independent directions chosen, and completed."""

from __future__ import annotations

import pytest
import torch

from gradaudit.linear.basis import complement_basis, sparsest_basis
from linear.planted import gaussian, plant


def test_the_first_independent_rows_are_chosen():
    rows = torch.nn.functional.normalize(gaussian(4, 6, 0), dim=1)
    mixed = torch.stack([rows[0], rows[0], rows[1], rows[0] + rows[1], rows[2], rows[3]])
    mixed = torch.nn.functional.normalize(mixed, dim=1)
    assert sparsest_basis(mixed).tolist() == [0, 2, 4, 5]


@pytest.mark.parametrize("known", [0, 1, 4, 6])
def test_a_completed_basis_keeps_the_directions_and_adds_orthonormal_ones(known):
    rows = torch.nn.functional.normalize(gaussian(known, 6, 0), dim=1)
    basis = complement_basis(rows)
    assert basis.shape == (6, 6)
    assert torch.equal(basis[:known], rows)
    added = basis[known:]
    assert torch.allclose(added @ added.T, torch.eye(6 - known, dtype=torch.float64), atol=1e-14)
    assert float((added @ rows.T).abs().sum()) < 1e-12
    assert len(sparsest_basis(basis)) == 6


def test_dependent_directions_are_refused():
    rows = torch.nn.functional.normalize(gaussian(2, 6, 0), dim=1)
    twice = torch.cat([rows, rows[:1]])
    with pytest.raises(ValueError, match="3 directions span only 2 dimensions"):
        complement_basis(twice)


def test_known_directions_give_their_columns_whatever_completes_them():
    # The activation gradients of the directions that are known, G = U Q, do not need the others.
    planted = plant(gaussian(6, 40, 1), width=100)
    basis = complement_basis(planted.true_directions[:4])
    columns = planted.problem.sparse @ basis.T
    for column, true in zip(columns.T[:4], planted.gradients.T[:4], strict=True):
        cosine = (column @ true) / (column.norm() * true.norm())
        assert abs(float(cosine)) > 1 - 1e-12
