"""Each defence against its formula, computed another way."""

from __future__ import annotations

import math

import pytest
import torch

from gradaudit.defenses import (
    DPSGD,
    ClipPerRecord,
    ClipUpdate,
    GaussianNoise,
    Mask,
    Prune,
    Quantise,
    Sign,
)
from gradaudit.errors import InputError

# Entries in statistical tests; a normal estimate is more than five of its standard deviations off
# once in 1.7 million runs, and seeds are fixed.
MANY, SIGMAS = 40_000, 5.0


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def test_clipping_records_over_all_parameters():
    rows = {"a": normal(5, 3, 2), "b": 3 * normal(5, 4, seed=1)}
    norms = torch.cat([t.flatten(1) for t in rows.values()], 1).norm(dim=1)
    bound = float(norms.median())
    clipped = ClipPerRecord(bound).on_records(rows)
    for i in range(5):
        whole = torch.cat([t[i].flatten() for t in rows.values()])
        factor = min(1.0, bound / (float(norms[i]) + 1e-6))
        found = torch.cat([t[i].flatten() for t in clipped.values()])
        torch.testing.assert_close(found, factor * whole, rtol=1e-13, atol=0)


def test_clipping_an_update():
    sent = {"a": normal(3, 2), "b": normal(4, seed=1)}
    norm = float(torch.cat([t.flatten() for t in sent.values()]).norm())
    for bound, factor in ((norm / 3, 1 / 3), (norm * 3, 1.0)):
        clipped = ClipUpdate(bound).on_sent(sent, seeded())
        for name in sent:
            torch.testing.assert_close(clipped[name], factor * sent[name])


def test_noise_has_the_deviation_that_is_said():
    noise = GaussianNoise(0.25).on_sent({"w": torch.zeros(MANY).double()}, seeded(1))["w"]
    assert abs(float(noise.mean())) < SIGMAS * 0.25 / MANY**0.5
    assert abs(float(noise.std()) / 0.25 - 1) < SIGMAS / (2 * MANY) ** 0.5
    assert GaussianNoise(3.0).noise_after(4.0) == 5.0


def test_the_settings_of_dp_sgd():
    defense = DPSGD(clip=2.0, noise_multiplier=0.5)
    assert (defense.noise_of_sum, defense.divisor(8)) == (1.0, 8)
    assert DPSGD(2.0, 0.5, expected_batch_size=10).divisor(8) == 10
    rows = {"a": normal(5, 3)}
    assert torch.equal(defense.on_records(rows)["a"], ClipPerRecord(2.0).on_records(rows)["a"])


@pytest.mark.parametrize("share", [0.0, 0.29, 0.5, 0.9, 1.0])
def test_pruning_keeps_the_largest(share):
    sent = {"a": normal(10, 10), "b": 1e-3 * normal(50, seed=1)}
    pruned = Prune(share).on_sent(sent, seeded())
    for name, change in sent.items():
        kept = pruned[name] != 0
        assert int(kept.sum()) == change.numel() - round(share * change.numel())
        assert torch.equal(pruned[name][kept], change[kept])
        least = change[kept].abs().min() if kept.any() else math.inf
        assert not bool((change[~kept].abs() > least).any())


def test_pruning_a_model_may_silence_a_layer():
    sent = {"a": 1 + torch.rand(60, generator=seeded()), "b": torch.full((40,), 0.5)}
    pruned = Prune(0.5, per="model").on_sent(sent, seeded())
    assert int((pruned["a"] != 0).sum()) == 50
    assert not pruned["b"].any()
    # Equal magnitudes: the earlier ones are kept.
    assert Prune(0.5).on_sent(sent, seeded())["b"].bool().tolist() == [True] * 20 + [False] * 20


def test_signs():
    change = torch.tensor([[2.0, -4.0], [0.0, 6.0]])
    assert Sign().on_sent({"w": change}, seeded())["w"].tolist() == [[1, -1], [0, 1]]
    assert Sign(scaled=True).on_sent({"w": change}, seeded())["w"].tolist() == [[3, -3], [0, 3]]


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
@pytest.mark.parametrize("bits", [1, 2, 8, 16])
def test_quantised_entries_are_on_a_grid_between_the_extremes(bits, rounding):
    change = normal(30, 20)
    sent = Quantise(bits, rounding).on_sent({"w": change}, seeded())["w"]
    step = (change.max() - change.min()) / (2**bits - 1)
    levels = (sent - change.min()) / step
    torch.testing.assert_close(levels, levels.round(), rtol=0, atol=1e-6)
    assert levels.unique().numel() <= 2**bits
    assert torch.equal(sent.min(), change.min())
    torch.testing.assert_close(sent.max(), change.max())
    bound = 0.5 if rounding == "nearest" else 1.0
    assert float((sent - change).abs().max()) <= bound * float(step) * (1 + 1e-9)


def test_stochastic_rounding_is_right_on_average():
    change = torch.cat([torch.tensor([0.0, 1.0]), torch.full((MANY,), 0.2)]).double()
    sent = Quantise(1, "stochastic").on_sent({"w": change}, seeded(1))["w"][2:]
    assert set(sent.tolist()) == {0.0, 1.0}
    assert abs(float(sent.mean()) - 0.2) < SIGMAS * (0.2 * 0.8 / MANY) ** 0.5


def test_one_value_and_none_are_sent_as_they_are():
    sent = {"w": torch.full((3,), 0.7), "none": torch.zeros(0, 2), "scalar": torch.tensor(3.0)}
    for name, tensor in Quantise(4, "stochastic").on_sent(sent, seeded()).items():
        assert torch.equal(tensor, sent[name])


def test_a_mask_hides_its_share_at_the_same_places():
    ones = {"w": torch.ones(MANY)}
    first = Mask(0.3, seed=5).on_sent(ones, seeded(0))["w"]
    assert torch.equal(first, Mask(0.3, seed=5).on_sent(ones, seeded(1))["w"])
    assert not torch.equal(first, Mask(0.3, seed=6).on_sent(ones, seeded(0))["w"])
    assert set(first.tolist()) == {0.0, 1.0}
    assert abs(float(first.mean()) - 0.7) < SIGMAS * (0.3 * 0.7 / MANY) ** 0.5


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (ClipPerRecord, {"norm": 0}),
        (ClipUpdate, {"norm": -1.0}),
        (DPSGD, {"clip": 1.0, "noise_multiplier": -1.0}),
        (DPSGD, {"clip": float("inf"), "noise_multiplier": 1.0}),
        (DPSGD, {"clip": 1.0, "noise_multiplier": 1.0, "expected_batch_size": 0}),
        (GaussianNoise, {"deviation": float("nan")}),
        (Prune, {"share": 1.5}),
        (Prune, {"share": 0.5, "per": "layer"}),
        (Quantise, {"bits": 0}),
        (Quantise, {"bits": 17}),
        (Quantise, {"bits": 8, "rounding": "up"}),
        (Mask, {"share": -0.1}),
        (Mask, {"share": 0.1, "seed": -1}),
    ],
)
@pytest.mark.wrong_types
def test_settings_out_of_range_are_named(kind, values):
    with pytest.raises(InputError) as caught:
        kind(**values)
    assert caught.value.argument in values
