from __future__ import annotations

import math

import pytest

from gradaudit.defending import Accounting, Setting
from gradaudit.defending.privacy import privacy_of
from gradaudit.errors import InputError
from gradaudit.update import LocalTraining

DEFENSE = ("dp-sgd:clip=1,noise=1",)


def test_a_full_batch_is_the_gaussian_mechanism():
    pytest.importorskip("opacus")
    # One step of the Gaussian mechanism at sigma: Renyi divergence a / (2 sigma^2) at order a, and
    # epsilon is at most the least a / (2 sigma^2) + log(1 / delta) / (a - 1).
    sigma, delta = 4.0, 1e-5
    setting = Setting(10, 3, defenses=(f"dp-sgd:clip=1,noise={sigma}",))
    found = privacy_of(setting, Accounting(delta), 10)
    least = 1 / (2 * sigma**2) + math.sqrt(2 * math.log(1 / delta)) / sigma
    assert (found.sampling_rate, found.steps) == (1.0, 1)
    # Opacus turns orders into epsilon by a tighter bound; it saves less than a fifth here.
    assert 0.8 * least < found.epsilon < least


def test_a_pass_and_a_round():
    pytest.importorskip("opacus")
    found = privacy_of(Setting(20, 3, defenses=DEFENSE), Accounting(), 1001)
    assert (found.sampling_rate, found.steps) == (20 / 1001, 51)
    training = LocalTraining(0.1, epochs=3, batch_size=8)
    found = privacy_of(Setting(20, 3, None, training, DEFENSE), Accounting(), 1001)
    assert (found.sampling_rate, found.steps) == (8 / 20, 9)
    asked = privacy_of(Setting(20, 3, defenses=DEFENSE), Accounting(records=200, steps=7), None)
    assert (asked.sampling_rate, asked.steps) == (0.1, 7)


def test_more_noise_is_more_private_and_none_is_not():
    pytest.importorskip("opacus")
    epsilons = [
        privacy_of(Setting(4, 3, defenses=(f"dp-sgd:clip=1,noise={s}",)), Accounting(), 100).epsilon
        for s in ("0", "1e-6", "1e-2", "0.5", "1", "4")
    ]
    assert epsilons[0] == math.inf
    assert epsilons == sorted(epsilons, reverse=True)


@pytest.mark.parametrize(
    ("defenses", "records"),
    [((), 100), (("gaussian-noise:deviation=1",), 100), (DEFENSE, None), (DEFENSE * 2, 100)],
)
def test_no_guarantee_is_made_up(defenses, records):
    assert privacy_of(Setting(4, 3, defenses=defenses), Accounting(), records) is None


def test_what_cannot_be_counted():
    with pytest.raises(InputError, match="records: found 3 for batches of 4"):
        privacy_of(Setting(4, 3, defenses=DEFENSE), Accounting(), 3)
    for wrong in ({"delta": 0.0}, {"delta": 1.0}, {"records": 0}, {"steps": 0}):
        with pytest.raises(InputError):
            Accounting(**wrong)
