from __future__ import annotations

import math

import pytest
import torch

from gradaudit.cli.client import simulated_update
from gradaudit.data import load_source
from gradaudit.defending import Setting
from gradaudit.defending.simulation import distortion, simulate
from gradaudit.defenses import parse_defense
from gradaudit.update import LocalTraining

SOURCE = load_source("patches?size=4")


@pytest.mark.parametrize("training", [None, LocalTraining(0.1, epochs=2, batch_size=2)])
@pytest.mark.parametrize("defense", ["none", "dp-sgd:clip=1,noise=0.1", "mask:share=0.5"])
def test_the_command_line_makes_the_same_update(training, defense):
    defenses = () if defense == "none" else (defense,)
    ours = simulate(SOURCE, Setting(5, 7, None, training, defenses), 3, loss="cross_entropy")
    theirs, truth, _ = simulated_update(
        SOURCE,
        batch_size=5,
        widths=(7, 7),
        seed=3,
        training=training,
        defenses=[parse_defense(text) for text in defenses],
    )
    assert ours.update.sha256() == theirs.sha256()
    assert torch.equal(ours.truth.inputs, truth.inputs)


def test_a_model_instead_of_a_width():
    setting = Setting(3, model="mlp:48-5-4-10?activation=tanh")
    simulation = simulate(SOURCE, setting, 0, loss="cross_entropy", dtype="float64")
    assert simulation.update.weights["fc1.weight"].shape == (5, 48)
    assert simulation.update.weights["fc1.weight"].dtype == torch.float64


def test_distortion_of_pruning_is_what_is_left_out():
    simulation = simulate(SOURCE, Setting(3, 9), 0, loss="cross_entropy", dtype="float64")
    pruned = simulate(
        SOURCE,
        Setting(3, 9, defenses=("prune:share=0.8,per=model",)),
        0,
        loss="cross_entropy",
        dtype="float64",
    )
    assert simulation.distortion == 0.0
    entries = torch.cat([t.flatten() for t in simulation.update.observed.values()])
    kept = entries.abs().sort(descending=True).values[: round(0.2 * len(entries))]
    # What is kept is a part of the whole: cos^2 = |kept|^2 / |all|^2.
    expected = math.sqrt(1 - kept.square().sum() / entries.square().sum())
    assert pruned.distortion == pytest.approx(expected, rel=1e-6)


def test_a_change_of_length_is_no_distortion():
    clipped = simulate(
        SOURCE, Setting(3, 9, defenses=("clip-update:norm=1e-3",)), 0, loss="cross_entropy"
    )
    # float32 rounds each entry by 6e-8 of it.
    assert clipped.distortion < 1e-6


@pytest.mark.parametrize(("sent", "plain", "expected"), [(0.0, 1.0, 1.0), (0.0, 0.0, 0.0)])
def test_distortion_where_nothing_is_sent(sent, plain, expected):
    assert distortion({"w": torch.full((2,), sent)}, {"w": torch.full((2,), plain)}) == expected
