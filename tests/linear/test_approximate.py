from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gradaudit.linear import polytopes
from gradaudit.linear.approximate import LARGEST_ERROR, approximate
from gradaudit.linear.polytopes import Polytopes
from gradaudit.linear.problem import Setting
from linear.planted import gaussian, plant, seeded


def estimate(planted, missing: int, **options):
    directions = planted.true_directions[missing:]
    wanted = torch.ones(len(directions), dtype=torch.bool)
    return approximate(planted.problem, directions, wanted, generator=seeded(0), **options)


def batch(seed: int, size: int = 20, width: int = 700, **options):
    records = gaussian(size, 40, seed) + 0.5 * gaussian(1, 40, seed + 100)
    return plant(records, width=width, seed=seed, **options)


@pytest.mark.parametrize(
    ("size", "missing", "options"),
    [(20, 5, {}), (20, 8, {}), (32, 10, {}), (20, 6, {"dtype": torch.float32})],
    ids=["few missing", "more", "larger", "float32"],
)
def test_errors_are_as_expected(size, missing, options):
    ratios = []
    for seed in range(3):
        planted = batch(seed, size, **options)
        found = estimate(planted, missing)
        true = planted.records[missing:][found.places]
        error = (found.records - true).square().mean(1).sqrt()
        ratios.append(error / found.estimated_error)
        limit = LARGEST_ERROR * found.records.square().mean(1).sqrt()
        assert bool((found.estimated_error <= limit).all())
        assert len(found.places) + sum(found.skipped.values()) == size - missing
    ratios = torch.cat(ratios)
    print(f"{len(ratios)} estimates: {ratios.min():.2f} to {ratios.max():.2f} times expected")
    assert len(ratios) >= 20
    # An error has as many components as directions are missing, five or more. With Gaussian ones a
    # ratio is below 1/3 with probability 0.01 and above 3 with 1e-8 (chi-square), so that a tenth
    # of forty or more is beyond with probability below 1e-4. The median's standard error is 0.05.
    assert float(((ratios > 1 / 3) & (ratios < 3)).double().mean()) > 0.9
    assert float(ratios.max()) < 4
    assert 1 / 1.4 < float(ratios.median()) < 1.4


def test_more_directions_leave_less_open():
    planted = batch(1)
    few, many = estimate(planted, 8), estimate(planted, 2)
    shared = {int(p) + 8: float(e) for p, e in zip(few.places, few.estimated_error, strict=True)}
    others = {int(p) + 2: float(e) for p, e in zip(many.places, many.estimated_error, strict=True)}
    common = shared.keys() & others.keys()
    assert common
    assert all(others[j] < shared[j] for j in common)


def test_the_same_generator_gives_the_same():
    planted = batch(2, 12)
    first, second = estimate(planted, 3), estimate(planted, 3)
    assert torch.equal(first.records, second.records)


def test_only_wanted_records_are_estimated():
    planted = batch(0, 12)
    directions = planted.true_directions[3:]
    wanted = torch.zeros(len(directions), dtype=torch.bool)
    none = approximate(planted.problem, directions, wanted, generator=seeded(0))
    assert not len(none.places)
    assert not none.skipped
    wanted[4] = True
    one = approximate(planted.problem, directions, wanted, generator=seeded(0))
    assert one.places.tolist() == [4]


def test_why_there_is_no_estimate():
    planted = batch(0, 12)
    assert estimate(planted, 3, stopped=lambda: "the time was up").skipped == {"the time was up": 9}
    # With so few neurons next to nothing is known of a record.
    narrow = batch(0, 12, width=60)
    skipped = estimate(narrow, 8).skipped
    assert sum(skipped.values()) == 4
    no_scale = replace(planted.problem, layer=replace(planted.layer, bias_gradient=None))
    directions = planted.true_directions[3:]
    wanted = torch.ones(9, dtype=torch.bool)
    found = approximate(no_scale, directions, wanted, generator=seeded(0))
    assert found.skipped == {"the scale of records is unknown": 9}
    blind = replace(planted.problem, activation_map=0 * planted.problem.activation_map)
    found = approximate(blind, directions, wanted, generator=seeded(0))
    assert found.skipped == {"the weights do not tell records apart": 9}
    # A direction that is none of a record's contradicts every neuron.
    wrong = directions.clone()
    wrong[0] = torch.nn.functional.normalize(directions[0] + planted.true_directions[0], dim=0)
    found = approximate(planted.problem, wrong, torch.arange(9) == 0, generator=seeded(0))
    assert found.skipped == {"no record fits every neuron": 1}


@pytest.mark.parametrize("share", [0.1, 0.6, 0.9])
def test_what_is_done_when_the_time_is_up_is_kept(share, monkeypatch):
    planted = batch(0, 12)
    # Three directions walk at once.
    work = Polytopes(planted.problem, planted.true_directions[3:], torch.arange(9)).work
    monkeypatch.setattr(polytopes, "WORK_AT_ONCE", 3 * work)
    asked = 0

    def count() -> None:
        nonlocal asked
        asked += 1

    whole = estimate(planted, 3, stopped=count)
    assert not whole.skipped
    limit, asked = share * asked, 0

    def stopped() -> str | None:
        count()
        return "the time was up" if asked > limit else None

    found = estimate(planted, 3, stopped=stopped)
    done = len(found.places)
    assert found.skipped == {"the time was up": 9 - done}
    assert done % 3 == 0
    assert (done > 0) == (share > 0.5)
    torch.testing.assert_close(found.records, whole.records[:done])
    assert asked <= limit + 6


def test_a_sparse_input_is_not_estimated():
    planted = plant(gaussian(6, 20, 0), setting=Setting.SPARSE_INPUT)
    assert estimate(planted, 2).skipped == {"the scale of records is unknown": 4}
