from __future__ import annotations

from dataclasses import replace

import torch

from gradaudit.budget import Budget, Control
from gradaudit.models.losses import get_loss
from gradaudit.noisy import Polished, polish
from tests.noisy.following import Known, known


def tried(case: Known, off: float, **changes: object) -> Polished | None:
    """Polish records that are off by so much."""
    generator = torch.Generator().manual_seed(5)
    noise = torch.randn(case.records.shape, generator=generator, dtype=torch.float64)
    given = {
        "entry_error": torch.full((len(noise),), off, dtype=torch.float64),
        "level": case.level,
        "generator": generator,
        "control": Control(Budget()),
    } | changes
    return polish(
        case.network, case.records + off * noise, case.labels, 1.1 * case.weights, **given
    )


def polished(case: Known, off: float, **changes: object) -> Polished:
    found = tried(case, off, **changes)
    assert found is not None
    return found


def test_records_reach_the_floor():
    for seed in range(3):
        case = known(0.02, seed=seed)
        found = polished(case, 0.1)
        errors, floor = case.errors(found.records), case.floor()
        # An error's own standard error is 1 / sqrt(2 * 80) of it: 1.4 is five of them.
        assert bool((errors < 1.4 * floor).all())
        assert bool((errors / found.entry_error < 1.4).all())
        assert bool((errors / found.entry_error > 0.6).all())
        assert 0.9 < found.remainder < 1.1


def test_they_start_far_above_it():
    case = known(0.02)
    assert float(case.floor().max()) < 0.5 * 0.1


def test_a_wrong_label_is_seen_in_what_is_left():
    case = known(0.02)
    assert tried(case, 0.05) is not None
    case.labels[0] = (case.labels[0] + 1) % 4
    assert tried(case, 0.05) is None


def test_another_loss_is_seen_in_what_is_left():
    case = known(0.02)
    squares = replace(case.network, loss=get_loss("mse"))
    assert tried(replace(case, network=squares), 0.05) is None


def test_records_that_are_nowhere_near_lead_nowhere():
    case = known(0.02)
    assert tried(case, 3.0) is None
    assert tried(replace(case, records=torch.zeros_like(case.records)), 0.0) is None
    assert tried(case, torch.nan) is None


def test_weights_are_found_to_be_alike():
    case = known(0.02)
    found = polished(case, 0.05)
    torch.testing.assert_close(found.weights, found.weights[:1].expand(6))
    torch.testing.assert_close(found.weights[0], case.weights[0], rtol=0.02, atol=0)


def test_one_round_is_what_a_stopped_search_gets():
    control = Control(Budget())
    control.interrupt()
    assert polished(known(0.02), 0.01, control=control).rounds == 1


def test_scaling_the_update_changes_nothing_but_the_weights():
    # Homogeneity: an update that is multiplied by a number has the same records.
    case = known(0.02)
    layers = tuple(
        replace(
            layer,
            weight_gradient=-3 * layer.weight_gradient,
            bias_gradient=-3 * layer.bias_gradient,
        )
        for layer in case.network.layers
    )
    scaled = replace(
        case,
        network=replace(case.network, layers=layers),
        level=3 * case.level,
        weights=-3 * case.weights,
    )
    first, second = polished(case, 0.05), polished(scaled, 0.05)
    torch.testing.assert_close(first.records, second.records, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(-3 * first.weights, second.weights)
