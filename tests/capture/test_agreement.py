from __future__ import annotations

import pytest
import torch

from gradaudit.capture import load_update
from gradaudit.capture.agreement import agreed_step, given_step
from gradaudit.errors import InputError
from gradaudit.update import GradientStep, LocalTraining, Update

SAVED = LocalTraining(epochs=3, batch_size=5, momentum=0.9)


def test_what_the_caller_gives():
    assert given_step(0.1, None) == GradientStep(0.1)
    assert given_step(0.1, LocalTraining(0.1)) == LocalTraining(0.1)
    with pytest.raises(InputError, match=r"learning_rate: found 0.1, expected 0.2"):
        given_step(0.1, LocalTraining(0.2))


def test_what_the_file_leaves_open_is_completed():
    assert agreed_step("f", SAVED, GradientStep()) is not None
    assert agreed_step("f", SAVED, GradientStep()) == SAVED
    known = LocalTraining(0.1, epochs=3, batch_size=5, momentum=0.9, records=20)
    assert agreed_step("f", SAVED, known) == known
    assert agreed_step("f", known, SAVED) == known
    assert agreed_step("f", GradientStep(), GradientStep(0.1)) == GradientStep(0.1)


@pytest.mark.parametrize(
    ("saved", "given", "said"),
    [
        (GradientStep(), LocalTraining(), "training: found local training"),
        (GradientStep(0.5), GradientStep(0.1), "learning_rate: found 0.1, expected 0.5"),
        (SAVED, LocalTraining(epochs=2, batch_size=5, momentum=0.9), "epochs: found 2"),
        (SAVED, LocalTraining(epochs=3, momentum=0.9), "batch_size: found None, expected 5"),
    ],
)
def test_contradictions(saved, given, said):
    with pytest.raises(InputError, match=said):
        agreed_step("folder/f", saved, given)


@pytest.fixture
def files(tmp_path):
    before = {"fc.weight": torch.arange(6.0).reshape(3, 2), "fc.bias": torch.ones(3)}
    after = {name: tensor + 0.25 for name, tensor in before.items()}
    torch.save(before, tmp_path / "before.pt")
    torch.save(after, tmp_path / "after.pt")
    return tmp_path / "after.pt", tmp_path / "before.pt"


def test_local_training_makes_a_pair_of_files_a_difference(files):
    update = load_update(*files, training=SAVED, learning_rate=0.1, noise=0.5)
    assert update.observed_kind == "delta"
    assert (update.step.learning_rate, update.step.batch_size, update.noise) == (0.1, 5, 0.5)
    assert load_update(*files, training=SAVED).step == SAVED
    with pytest.raises(InputError, match="step: found local training with a gradient"):
        load_update(files[0], weights=files[1], contains="gradient", training=SAVED)


def test_everything_comes_back_from_a_file(tmp_path):
    named = {"fc.weight": torch.ones(3, 2)}
    Update(named, delta=named, step=SAVED, noise=0.125).save(tmp_path / "u")
    loaded = load_update(tmp_path / "u", noise=0.125)
    assert (loaded.step, loaded.noise) == (SAVED, 0.125)
    assert load_update(tmp_path / "u", learning_rate=0.1).step.learning_rate == 0.1
    with pytest.raises(InputError, match=r"noise: found 0\.5, expected 0\.125"):
        load_update(tmp_path / "u", noise=0.5)
