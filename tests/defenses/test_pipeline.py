from __future__ import annotations

import pytest
import torch

from gradaudit.defenses import DPSGD, ClipPerRecord, ClipUpdate, GaussianNoise, Pipeline, Prune
from gradaudit.errors import InputError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_defences_on_records_come_first():
    pipeline = Pipeline.of([ClipPerRecord(1.0), DPSGD(1.0, 0.5), Prune(0.5), GaussianNoise(0.1)])
    assert pipeline.on_records == (ClipPerRecord(1.0), DPSGD(1.0, 0.5))
    assert pipeline.on_sent == (Prune(0.5), GaussianNoise(0.1))
    with pytest.raises(InputError, match=r"found DPSGD after Prune.*put DPSGD first"):
        Pipeline.of([Prune(0.5), DPSGD(1.0, 0.5)])


@pytest.mark.wrong_types
def test_what_is_no_defence():
    with pytest.raises(InputError, match="defenses: found str"):
        Pipeline.of(["prune"])


def test_they_are_applied_in_the_order_given():
    sent = {"w": torch.tensor([3.0, 4.0])}
    pruned_first = Pipeline.of([Prune(0.5), ClipUpdate(1.0)]).send(sent, 0.0, seeded())[0]
    clipped_first = Pipeline.of([ClipUpdate(1.0), Prune(0.5)]).send(sent, 0.0, seeded())[0]
    torch.testing.assert_close(pruned_first["w"], torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(clipped_first["w"], torch.tensor([0.0, 0.8]))


def test_portions_of_a_batch_make_the_same_gradient():
    rows = torch.randn(7, 3, generator=seeded(), dtype=torch.float64)
    pipeline = Pipeline.of([ClipPerRecord(1.0)])
    whole, noise = pipeline.reduce([{"w": rows}], 7, "mean", seeded())
    parts, _ = pipeline.reduce([{"w": rows[:2]}, {"w": rows[2:]}], 7, "mean", seeded())
    factors = (1 / (rows.norm(dim=1) + 1e-6)).clamp(max=1)
    torch.testing.assert_close(whole["w"], (factors[:, None] * rows).sum(0) / 7)
    torch.testing.assert_close(parts["w"], whole["w"])
    assert noise == 0.0
    summed, _ = pipeline.reduce([{"w": rows}], 7, "sum", seeded())
    torch.testing.assert_close(summed["w"], 7 * whole["w"])


@pytest.mark.parametrize(
    ("expected_size", "reduction", "divisor"),
    [(None, "mean", 4), (10, "mean", 10), (None, "sum", 1), (10, "sum", 1)],
)
def test_noise_of_the_sum_is_divided_as_the_sum_is(expected_size, reduction, divisor):
    rows = {"w": torch.zeros(4, 20_000, dtype=torch.float64)}
    pipeline = Pipeline.of([DPSGD(2.0, 3.0, expected_size)])
    gradient, noise = pipeline.reduce([rows], 4, reduction, seeded())
    assert noise == 6.0 / divisor
    # Five standard deviations of the estimate: once in 1.7 million runs.
    assert abs(float(gradient["w"].std()) / noise - 1) < 5 / 40_000**0.5


@pytest.mark.parametrize(
    ("defenses", "before", "after"),
    [
        ([], 0.0, 0.0),
        ([], 3.0, 3.0),
        ([GaussianNoise(4.0)], 3.0, 5.0),
        ([Prune(0.5)], 0.0, 0.0),
        ([Prune(0.5)], 3.0, None),
        ([Prune(0.5), GaussianNoise(4.0)], 3.0, None),
        ([Prune(0.5), GaussianNoise(4.0)], 0.0, 4.0),
        ([GaussianNoise(4.0), Prune(0.5)], 0.0, None),
        ([GaussianNoise(4.0)], None, None),
    ],
)
def test_noise_is_told_only_where_it_is_known(defenses, before, after):
    sent = {"w": torch.ones(4)}
    assert Pipeline.of(defenses).send(sent, before, seeded())[1] == after
