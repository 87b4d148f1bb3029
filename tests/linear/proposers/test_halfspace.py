"""The half-space search where sampling cannot follow."""

from __future__ import annotations

import pytest
import torch
from linear.planted import gaussian, plant, seeded, worst_error

from gradaudit.budget import Budget, Control
from gradaudit.linear.invert import invert
from gradaudit.linear.problem import Setting
from gradaudit.linear.proposers import HalfSpaceSearch


def search(problem, names=("halfspace",), seed: int = 0, seconds: float = 60.0):
    control = Control(Budget(seconds=seconds, submatrices=None))
    return invert(problem, proposer=names, generator=seeded(seed), control=control)


@pytest.mark.parametrize(("batch", "width"), [(24, 200), (32, 200), (40, 500)])
def test_batches_beyond_sampling_are_complete_and_exact(batch, width):
    planted = plant(gaussian(batch, 120, 1), width=width)
    inversion = search(planted.problem)
    assert inversion.matching == 1.0
    assert worst_error(inversion.batch.records, planted.records) < 1e-10


def test_without_a_bias_gradient_the_directions_are_found_all_the_same():
    planted = plant(gaussian(16, 80, 2), width=200, bias=False)
    inversion = search(planted.problem)
    unit = planted.records / planted.records.norm(dim=1, keepdim=True)
    assert worst_error(inversion.batch.records, unit) < 1e-10


def test_known_directions_make_way_for_the_others():
    planted = plant(gaussian(12, 60, 1), width=200)
    known = planted.true_directions[:8]
    proposer = HalfSpaceSearch(planted.problem)
    proposals = proposer.propose(seeded(0), 0, found=known).directions
    nearest = (proposals @ planted.true_directions.T).abs().argmax(1).tolist()
    assert set(range(8, 12)) <= set(nearest)
    assert sum(index < 8 for index in nearest) < len(nearest) / 2


def test_proposals_are_true_directions_and_not_mixtures_on_a_clean_problem():
    planted = plant(gaussian(20, 60, 1), width=300)
    proposals = HalfSpaceSearch(planted.problem).propose(seeded(0), 0).directions
    agreement = (proposals @ planted.true_directions.T).abs().amax(1)
    assert len(proposals) >= 16
    assert float(agreement.min()) > 1 - 1e-4


def test_together_with_sampling_the_seed_still_decides():
    planted = plant(gaussian(14, 60, 3), width=120)
    one, other = (search(planted.problem, ("halfspace", "spear"), seed=5) for _ in range(2))
    assert torch.equal(one.batch.records, other.batch.records)
    assert one.counters == other.counters


def test_effort_rises_and_then_starts_double_while_rounds_find_nothing():
    planted = plant(gaussian(12, 60, 1), width=200)
    proposer = HalfSpaceSearch(planted.problem, starts=10)
    found = planted.true_directions[:1]
    tried = [proposer.propose(seeded(0), 0, found=found).tried for _ in range(5)]
    assert tried == [10, 10, 10, 20, 40]


def test_a_batch_of_nearly_a_quarter_of_the_width_is_complete():
    # The third moment alone stops at half of this.
    planted = plant(gaussian(48, 120, 1), width=200)
    inversion = search(planted.problem)
    assert inversion.matching == 1.0
    assert worst_error(inversion.batch.records, planted.records) < 1e-9


def test_the_signs_of_what_was_found_do_not_matter():
    planted = plant(gaussian(24, 80, 1), width=200)
    known = planted.true_directions[:12]
    signs = torch.tensor([1.0, -1.0]).repeat(6)[:, None]
    one, other = (
        HalfSpaceSearch(planted.problem).propose(seeded(0), 0, found=found).directions
        for found in (known, signs * known)
    )
    nearest = [
        set((found @ planted.true_directions.T).abs().argmax(1).tolist()) for found in (one, other)
    ]
    assert nearest[0] == nearest[1]


def test_sparse_inputs_are_refused():
    planted = plant(gaussian(4, 40, 1), width=100, setting=Setting.SPARSE_INPUT)
    with pytest.raises(ValueError, match="half-space"):
        HalfSpaceSearch(planted.problem)
