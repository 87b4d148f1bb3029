"""R-GAP's experiments, and the defences."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from gradaudit.budget import Budget, Control
from gradaudit.experiments import defence_curves, rgap_mse, rgap_rank
from gradaudit.experiments.scale import SCALES, Scale
from gradaudit.models import cnn6_d

EXPERIMENTS = (rgap_mse, rgap_rank, defence_curves)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.NAME)
@pytest.mark.parametrize("scale", SCALES)
def test_every_unit_is_there_once(experiment, scale):
    units = [tuple(unit.items()) for unit in experiment.units(Scale(scale))]
    assert units
    assert len(set(units)) == len(units)


def test_the_recursion_recovers_an_image():
    unit = {"network": "LeNet*", "attack": "rgap", "seed": 0}
    rows = rgap_mse.run(unit, Scale(data="digits"), Control(Budget(seconds=20)))
    assert rows[0]["mse"] < 1e-8
    assert [line[:3] for line in rgap_mse.table(rows)[1:]] == [("LeNet*", "rgap", "1.5e-10")]
    figure = Figure()
    rgap_mse.draw(rows, figure)
    assert figure.axes


def test_an_image_that_was_not_reconstructed_has_no_error():
    row = {"network": "CNN6", "attack": "dlg", "mse": None, "seconds": 1.0}
    assert rgap_mse.table([row])[1] == ("CNN6", "dlg", "not known", "1", "0", "none", "1.00")


def test_the_open_dimensions_are_the_analysis_own():
    rows = rgap_rank.run({"network": "CNN6-d"}, Scale(), Control())
    assert len(rows) == sum(p.dim() > 1 for p in cnn6_d().parameters())
    assert rgap_rank.table(rows)[1][2:4] == ("1", "280")
    figure = Figure()
    rgap_rank.draw(rows, figure)
    assert len(figure.axes) == 2


def test_defences_are_compared_with_none(monkeypatch):
    monkeypatch.setattr(defence_curves, "BATCH_SIZE", 4)
    monkeypatch.setattr(defence_curves, "WIDTH", 60)
    scale = Scale(data="digits", seeds=1)
    rows = [
        row
        for defence in ("none", "sign")
        for row in defence_curves.run({"defence": defence}, scale, Control())
    ]
    assert [row["certified"] for row in rows] == [4, 0]
    lines = defence_curves.table(rows)
    assert lines[1][-1] == "+0.0%"
    figure = Figure()
    defence_curves.draw(rows, figure)
    assert len(figure.axes) == 2
