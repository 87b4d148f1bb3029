from __future__ import annotations

import dataclasses
import importlib

import pytest

import gradaudit as ga
from gradaudit.budget import Control, Progress
from gradaudit.data import load_source
from gradaudit.defending import Accounting, Plan, Setting, Training, grid
from gradaudit.errors import InputError, MissingExtraError

SOURCE = load_source("patches?size=6")
SETTINGS = grid(batch_sizes=[3], widths=[60], defenses=["none", "sign", "prune:share=0.99"])
PLAN = Plan(seeds=[0, 1], dtype="float64", seconds=20.0, accounting=None)
sweep = importlib.import_module("gradaudit.defending.sweep")


@pytest.fixture
def audits(monkeypatch):
    """Count the audits that are made."""
    made = []
    measure = sweep.measure

    def counted(simulation, **more):
        made.append(simulation.update.sha256())
        return measure(simulation, **more)

    monkeypatch.setattr(sweep, "measure", counted)
    return made


def test_an_undefended_batch_is_recovered_and_signs_are_not(tmp_path, audits):
    curve = ga.defense_curve(SOURCE, SETTINGS, PLAN, folder=tmp_path)
    plain, sign, pruned = curve.points
    assert (plain.certified, plain.records, plain.statuses) == (6, 6, {"recovered": 2})
    # Certified records are the client's own.
    assert plain.close == 6
    assert plain.true_error < 1e-6
    assert (sign.certified, pruned.certified) == (0, 0)
    assert plain.distortion == 0.0 < sign.distortion
    assert curve.complete
    assert len(audits) == 6

    again = ga.defense_curve(SOURCE, SETTINGS, PLAN, folder=tmp_path)
    assert again == curve
    assert len(audits) == 6, "what is in the folder is not audited again"
    longer = dataclasses.replace(PLAN, seeds=[0], seconds=21.0)
    ga.defense_curve(SOURCE, SETTINGS[1:2], longer, folder=tmp_path)
    assert len(audits) == 7, "another time limit is another audit"


def test_an_interrupted_search_keeps_what_had_ended(tmp_path, audits):
    control = Control()
    seen: list[Progress] = []

    def listener(progress: Progress) -> None:
        seen.append(progress)
        if progress.phase.startswith("2 of 6"):
            control.interrupt()

    control.listener = listener
    curve = ga.defense_curve(SOURCE, SETTINGS, PLAN, folder=tmp_path, control=control)
    assert not curve.complete
    assert [len(point.runs) for point in curve.points] == [1, 0, 0]
    assert seen[0].phase.startswith("1 of 6: 3 records, none: ")
    assert seen[0].seconds_left is None
    assert seen[-1].seconds_left > 0
    assert ga.defense_curve(SOURCE, SETTINGS, PLAN, folder=tmp_path).complete
    # The one that was interrupted is made again.
    assert len(audits) == 7


def test_accuracy_is_kept_as_well(tmp_path, monkeypatch):
    plan = dataclasses.replace(PLAN, seeds=[0], training=Training(rounds=3, records=30))
    curve = ga.defense_curve(SOURCE, SETTINGS[1:2], plan, folder=tmp_path)
    assert 0 <= curve.points[0].trained.accuracy <= 1
    monkeypatch.setattr(sweep, "train", None)
    again = ga.defense_curve(SOURCE, SETTINGS[1:2], plan, folder=tmp_path)
    assert again.points[0].trained == curve.points[0].trained


def test_epsilon_is_of_the_training_beside_it():
    pytest.importorskip("opacus")
    settings = [Setting(3, 60, defenses=("dp-sgd:clip=1,noise=1",))]
    plan = dataclasses.replace(
        PLAN, seeds=[0], training=Training(rounds=3, records=30), accounting=Accounting()
    )
    (point,) = ga.defense_curve(SOURCE, settings, plan).points
    assert (point.privacy.steps, point.privacy.sampling_rate) == (3, 3 / 24)


def test_a_missing_accountant_is_said_once(monkeypatch):
    def missing(*words):
        raise MissingExtraError("opacus is not installed; run: pip install 'gradaudit[opacus]'")

    monkeypatch.setattr(sweep, "privacy_of", missing)
    plan = dataclasses.replace(PLAN, seeds=[0], accounting=Accounting())
    curve = ga.defense_curve(SOURCE, SETTINGS[1:2], plan)
    assert curve.notes == (
        "Without epsilon, as opacus is not installed; run: pip install 'gradaudit[opacus]'.",
    )


def test_a_closeness_that_is_no_number():
    with pytest.raises(InputError, match="close_psnr: found nan"):
        ga.defense_curve(
            load_source("patches?size=6"),
            grid(batch_sizes=[2], widths=[20], defenses=["none"]),
            dataclasses.replace(PLAN, close_psnr=float("nan")),
        )


def test_nothing_to_try():
    with pytest.raises(InputError, match="nothing to try"):
        ga.defense_curve(SOURCE, [], PLAN)
