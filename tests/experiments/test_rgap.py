"""R-GAP's experiments, and the defences."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure

from gradaudit.budget import Budget, Control
from gradaudit.experiments import defence_curves, rgap_mse, rgap_rank, rgap_resnet
from gradaudit.experiments.resnet_variants import Size, network
from gradaudit.experiments.scale import Scale
from gradaudit.models import cnn6_d


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


@pytest.mark.parametrize("weights", ["initial", "trained"])
def test_variants_are_attacked_and_compared(weights, monkeypatch):
    monkeypatch.setattr(rgap_resnet, "SIZES", (Size(16, 4, 3),) * 3)
    monkeypatch.setattr("gradaudit.experiments.resnet_variants.STEPS", 2)
    scale = Scale(data="patches?size=16", seeds=2)
    rows = [
        row
        for unit in rgap_resnet.units(scale)
        for row in rgap_resnet.run({**unit, "weights": weights}, scale, Control())
    ]
    assert [(row["without_skip"], row["seed"]) for row in rows] == [(0, 0), (3, 0), (0, 1), (3, 1)]
    assert {row["open_full_size"] for row in rows} == {rows[0]["open_full_size"]}
    assert all((row["accuracy"] is not None) == (weights == "trained") for row in rows)
    lines = rgap_resnet.table(rows)
    assert [line[2] for line in lines[1:]] == ["-", "about 3"]
    figure = Figure()
    rgap_resnet.draw(rows, figure)
    assert len(figure.axes) == 2


@pytest.mark.parametrize(
    ("images", "ratio", "verdict"),
    [(6, 3.0, "yes"), (6, 0.5, "not found"), (4, 3.0, "too few images to tell")],
)
def test_a_larger_error_counts_where_the_test_finds_it(images, ratio, verdict):
    shared = {"weights": "initial", "flat_mse": 0.1, "open": 1, "open_full_size": 2}
    rows = [
        {**shared, "without_skip": block, "seed": seed, "mse": 0.01 * (seed + 1) * factor}
        for seed in range(images)
        for block, factor in ((0, 1.0), (3, ratio))
    ]
    line = rgap_resnet.table(rows)[2]
    assert line[rgap_resnet.HEAD.index("ratio")] == f"{ratio:.2f}"
    assert line[rgap_resnet.HEAD.index("larger error")] == verdict


def test_a_variant_computes_as_the_whole_network_less_a_skip():
    whole, variant = (network((1, 8, 8), 2, block, seed=1) for block in (0, 1))
    inputs = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(whole(inputs), variant(inputs))
    assert all(torch.equal(whole.state_dict()[k], v) for k, v in variant.state_dict().items())


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
