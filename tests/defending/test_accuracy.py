from __future__ import annotations

import numpy as np
import pytest
import torch

from gradaudit.budget import Control
from gradaudit.data.source import RecordSet
from gradaudit.defending import Setting, Training
from gradaudit.defending.accuracy import train
from gradaudit.errors import InputError
from gradaudit.preprocessing import Preprocessing
from gradaudit.update import LocalTraining


def two_clouds(records: int = 200) -> RecordSet:
    """Records around (3, 0, 0, 0) and its opposite, which any network tells apart."""
    labels = np.arange(records) % 2
    cloud = np.random.default_rng(0).standard_normal((records, 4))
    cloud[:, 0] += np.where(labels == 0, 3.0, -3.0) * 2
    return RecordSet("clouds", labels, cloud.__getitem__, Preprocessing(), 2)


@pytest.mark.parametrize("local", [None, LocalTraining(0.1, epochs=2, batch_size=4)])
def test_what_is_easy_is_learned_also_from_signs(local):
    for defenses in ((), ("sign",)):
        setting = Setting(8, 10, None, local, defenses)
        trained = train(two_clouds(), setting, Training(rounds=60, learning_rate=0.02), loss="mse")
        assert trained.accuracy >= 0.95
        assert trained.held_out == 40


def test_nothing_is_learned_from_noise_alone():
    # The seeds are fixed. One network that has moved at random may be right by chance, three not.
    setting = Setting(8, 10, defenses=("dp-sgd:clip=1e-6,noise=1e6",))
    training = Training(rounds=20, learning_rate=0.02)
    source = two_clouds()
    accuracies = [
        train(source, setting, training, loss="cross_entropy", seed=seed).accuracy
        for seed in range(3)
    ]
    assert min(accuracies) < 0.95
    again = train(source, setting, training, loss="cross_entropy", seed=0).accuracy
    assert again == accuracies[0]


def test_a_single_logit_is_a_class():
    trained = train(
        two_clouds(),
        Setting(8, 10),
        Training(rounds=60, learning_rate=0.02),
        loss="binary_cross_entropy",
        dtype="float64",
    )
    assert trained.accuracy >= 0.95


def test_interrupted_training_has_no_accuracy():
    control = Control()
    control.interrupt()
    assert train(two_clouds(), Setting(8, 10), Training(), loss="mse", control=control) is None


def test_too_few_records():
    with pytest.raises(InputError, match="in batches of 300"):
        train(two_clouds(), Setting(300, 10), Training(), loss="mse")
    for wrong in ({"rounds": 0}, {"learning_rate": 0.0}, {"held_out": 1.0}, {"records": 0}):
        with pytest.raises(InputError):
            Training(**wrong)


def test_the_caller_s_randomness_is_left_alone():
    before = torch.random.get_rng_state()
    train(two_clouds(), Setting(8, 10), Training(rounds=2), loss="mse")
    assert torch.equal(before, torch.random.get_rng_state())
