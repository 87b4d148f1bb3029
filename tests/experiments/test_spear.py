"""SPEAR's experiments: units, rows, tables and figures, on data that every checkout has."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from gradaudit.budget import Budget, Control
from gradaudit.clients import FedSGD
from gradaudit.errors import InputError
from gradaudit.evidence import Status
from gradaudit.experiments import (
    spear_figure3,
    spear_figure4,
    spear_figure5,
    spear_figure6,
    spear_figure7,
    spear_figure8,
    spear_figure11,
    spear_figure12,
    spear_table1,
    spear_table2,
)
from gradaudit.experiments.pictures import decode, encode
from gradaudit.experiments.scale import FILES, Scale
from gradaudit.experiments.spear_client import Client, quality
from gradaudit.experiments.spear_search import first_layer, search
from gradaudit.metrics import compare
from gradaudit.models import mlp
from gradaudit.result import AuditResult
from gradaudit.theory import failure_probability

SEARCHES = (spear_table1, spear_table2, spear_figure4, spear_figure5, spear_figure6)
DIGITS = Scale(data="digits", seeds=1)


def control(seconds: float = 20.0) -> Control:
    return Control(Budget(seconds=seconds))


@pytest.mark.parametrize("experiment", SEARCHES)
def test_the_smallest_unit_gives_a_row_a_table_and_a_figure(experiment):
    unit = {**experiment.units(DIGITS)[0], "batch_size": 6}
    rows = experiment.run(unit, DIGITS, control())
    assert len(rows) == 1
    assert unit.items() <= rows[0].items()
    # What takes time apart, a seed decides the row.
    again = experiment.run(unit, DIGITS, control())
    assert rows[0] | {"seconds": 0} == again[0] | {"seconds": 0}
    width = len(experiment.HEAD if hasattr(experiment, "HEAD") else spear_table1.HEAD)
    assert {len(line) for line in experiment.table(rows)} == {width}
    figure = Figure()
    experiment.draw(rows, figure)
    assert figure.axes


def test_an_exact_batch_counts_and_no_batch_does_not():
    unit = {"dataset": "MNIST", "attack": "auto", "batch_size": 6, "seed": 0}
    (row,) = spear_table1.run(unit, DIGITS, control())
    assert row["exact"]
    assert row["psnr"] > 200
    lost = row | {"exact": False, "psnr": None}
    assert spear_table1.table([row, lost])[2][-1] == "50%"


def test_nothing_reconstructed_has_no_quality():
    _, _, truth = Client("digits", 3, 0).observe()
    row = quality(AuditResult(Status.NOT_RECOVERED, "none", "none"), truth)
    assert not row["exact"]
    assert "psnr" not in row


def test_batches_of_one_class_have_one_label():
    _, _, truth = Client("digits", 5, 3, one_class=True).observe()
    assert truth.labels.tolist() == [3] * 5


def test_the_papers_search_finds_the_batch():
    _, update, truth = Client("patches?size=8", 6, 0).observe()
    generator = torch.Generator().manual_seed(0)
    *_, last = search(first_layer(update, generator), generator, control())
    assert last.matching == 1.0
    assert compare(last.second_stage, truth, structural=False).exact_batch


def test_the_search_ends_with_its_submatrices():
    _, update, _ = Client("patches?size=8", 14, 0).observe()
    generator = torch.Generator().manual_seed(0)
    few = Control(Budget(seconds=60, submatrices=300))
    assert list(search(first_layer(update, generator), generator, few)) == []


def test_the_first_layer_alone_is_searched():
    model = mlp(20, [40, 30], 3, dtype=torch.float64)
    inputs = torch.randn(4, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    update, _ = FedSGD(model).update(inputs, torch.tensor([0, 1, 2, 0]))
    problem = first_layer(update, torch.Generator().manual_seed(0))
    assert problem.layer.name == "fc1"
    assert problem.batch_size == 4


def test_training_has_a_row_for_every_checkpoint_and_kind(monkeypatch):
    monkeypatch.setattr(spear_figure7, "checkpoints", lambda scale: (0, 20))
    rows = spear_figure7.run({"batch_size": 5, "seed": 0}, DIGITS, control())
    assert [(row["steps"], row["records"]) for row in rows] == [
        (steps, records) for steps in (0, 20) for records in ("fresh", "trained on")
    ]
    assert all(row["exact"] for row in rows[:2])
    assert len(spear_figure7.table(rows)) == 5
    figure = Figure()
    spear_figure7.draw(rows, figure)
    assert len(figure.axes) == 4


def test_either_attack_and_the_originals_are_pictured():
    units = [{**unit, "batch_size": 3} for unit in spear_figure11.units(DIGITS)]
    ours = spear_figure11.run(units[0], DIGITS, control())
    matching = spear_figure11.run(units[1], DIGITS, control(2.0))
    rows = ours + matching
    assert [row["image"] for row in ours] == ["found"] * 3 + ["original"] * 3
    assert all(row["exact"] for row in ours[:3])
    figure = Figure()
    spear_figure11.draw(rows, figure)
    assert len(figure.axes) == 9
    assert len(spear_figure11.table(rows)) == 3


def test_a_failed_batch_has_a_wrong_record_and_right_ones():
    scale = Scale(data="patches?size=16")
    rows = spear_figure12.run({"batch_size": 14, "seed": 0}, scale, control(60.0))
    found = [row for row in rows if row["image"] == "found"]
    assert len(found) == 14
    assert 0 < sum(row["exact"] for row in found) < 14
    figure = Figure()
    spear_figure12.draw(rows, figure)
    assert len(figure.axes) == 28


def test_no_failed_batch_is_said_and_not_invented():
    figure = Figure()
    spear_figure12.draw([], figure)
    assert len(spear_figure12.table([])) == 1
    assert figure.texts[0].get_text() == "every batch was reconstructed perfectly"


def test_a_picture_survives_as_text():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 3))
    assert (decode(encode(pixels / 255)) == pixels).all()


def test_data_is_the_given_the_folders_or_a_stand_in(monkeypatch, tmp_path):
    (tmp_path / "mnist_7.npz").touch()
    monkeypatch.setenv("GRADAUDIT_DATA", str(tmp_path))
    assert Scale().source("MNIST") == str(tmp_path / "mnist_7.npz")
    assert Scale().source("Tiny-ImageNet") == "patches?size=64"
    assert {Scale(data="digits").source(name) for name in FILES} == {"digits"}


@pytest.mark.parametrize("arguments", [{"name": "huge"}, {"seeds": 0}])
def test_a_scale_that_is_none_is_refused(arguments):
    with pytest.raises(InputError):
        Scale(**arguments)


def test_figure_3_is_lemma_5_3():
    rows = [
        row
        for unit in spear_figure3.units(DIGITS)
        for row in spear_figure3.run(unit, DIGITS, control())
    ]
    assert all(row["approximate"] <= row["upper"] for row in rows if row["batch_size"] > 1)
    at = {(row["width"], row["batch_size"]): row["upper"] for row in rows}
    assert at[200, 20] == failure_probability(20, 200, bound="upper")
    assert (400, 200) in at
    assert (50, 64) not in at
    figure = Figure()
    spear_figure3.draw(rows, figure)
    assert len(figure.axes[0].lines) == 2 * len(spear_figure3.WIDTHS)
    assert {len(line) for line in spear_figure3.table(rows)} == {len(spear_figure3.HEAD)}


def test_the_default_network_is_wide_and_deep_once():
    units = spear_figure5.units(DIGITS)
    networks = [(unit["layers"], unit["width"]) for unit in units]
    assert networks.count((6, 200)) == 1
    rows = [
        {**unit, "exact": unit["width"] > 50, "submatrices": 10 * unit["width"]} for unit in units
    ]
    assert ["50", "0"] in [[line[1], line[4]] for line in spear_figure5.table(rows)]
    figure = Figure()
    spear_figure5.draw(rows, figure)
    # The same network at the width of 200 on the left as at six layers on the right.
    left, right = (dict(axis.lines[1].get_xydata()) for axis in figure.axes[2:])
    assert left[200] == right[6] == 2000


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_direction_is_found_as_by_listing_all_submatrices(size):
    generator = torch.Generator().manual_seed(size)
    shape = (40, 7, size)
    tossed = torch.rand(shape, generator=generator) < 0.5
    gradients = torch.randn(shape, generator=generator, dtype=torch.float64) * tossed
    found = spear_figure8.all_submatrices_find(gradients)
    mixing = torch.randn(size, size, generator=generator, dtype=torch.float64)
    listed = torch.zeros_like(found)
    for number, gradient in enumerate(gradients):
        for rows in combinations((gradient @ mixing), size - 1):
            # The kernel, and what it makes of the factor: the gradient of one record, or not.
            _, values, kernel = torch.linalg.svd(torch.stack(rows))
            if values[-1] < 1e-9:
                continue
            column = mixing @ kernel[-1]
            fitting = column.abs() > 1e-9
            if fitting.sum() == 1:
                listed[number, fitting.nonzero().item()] = True
    assert torch.equal(found, listed)
    assert found.any()
    assert not found.all()


def test_the_filter_rejects_a_direction_with_too_few_zeros():
    gradient = torch.tensor([[[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]], dtype=torch.float64)
    assert spear_figure8.all_submatrices_find(gradient, 1).tolist() == [[True, True]]
    assert spear_figure8.all_submatrices_find(gradient, 2).tolist() == [[True, False]]


@pytest.mark.parametrize("gradient", spear_figure8.STYLES)
def test_counts_are_drawn_beside_the_formulas(gradient):
    unit = {"gradient": gradient, "batch_size": 4, "width": 12}
    scale = Scale(data="digits", seeds=30)
    rows = spear_figure8.run(unit, scale, control())
    assert rows == spear_figure8.run(unit, scale, control())
    (row,) = rows
    assert row["batches"] == 30 * (1 if gradient == "networks" else spear_figure8.TOSSES)
    assert row["low"] <= row["failed"] / row["batches"] <= row["high"]
    assert row["upper"] == failure_probability(4, 12)
    line = spear_figure8.table([row, row | {"width": 40, "upper": 0.01}])
    assert line[2][4 + list(spear_figure8.STYLES).index(gradient)].endswith("above the upper")
    figure = Figure()
    spear_figure8.draw(rows, figure)
    assert len(figure.axes) == 1
