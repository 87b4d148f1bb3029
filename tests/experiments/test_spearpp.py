"""SPEAR++'s experiments, and the limits and searches drawn beside them."""

from __future__ import annotations

import math

import pytest
import torch
from matplotlib.figure import Figure

from gradaudit.budget import Budget, Control
from gradaudit.experiments import (
    limit,
    side_by_side,
    spearpp_figure1,
    spearpp_growth,
    spearpp_table1,
    spearpp_table2,
    spearpp_table3,
    spearpp_table4,
)
from gradaudit.experiments.scale import Scale
from gradaudit.experiments.spear_client import Client
from gradaudit.experiments.spear_search import first_layer
from gradaudit.experiments.spearpp_search import learn
from gradaudit.linear.proposers import DictionarySearch
from gradaudit.metrics import compare

TABLES = (spearpp_table1, spearpp_table2, spearpp_table3, spearpp_table4)
EXPERIMENTS = (*TABLES, spearpp_growth, spearpp_figure1, limit, side_by_side)
PATCHES = Scale(data="patches?size=8", seeds=1)


def control(seconds: float = 20.0) -> Control:
    return Control(Budget(seconds=seconds))


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.NAME)
def test_a_small_unit_gives_a_table_and_a_figure(experiment, monkeypatch):
    # A search that does not end is a result as well.
    for module in (limit, spearpp_table1, spearpp_table3, spearpp_table4):
        monkeypatch.setattr(module, "SECONDS", (1.0, 1.0, 1.0))
    unit = {**experiment.units(PATCHES)[0], "width": 60}
    if "batch_size" in unit:
        unit["batch_size"] = 6
    rows = experiment.run(unit, PATCHES, control())
    assert all(unit.items() <= row.items() for row in rows)
    table = experiment.table(rows)
    assert len({len(line) for line in table}) == 1
    figure = Figure()
    experiment.draw(rows, figure)
    assert figure.axes or figure.texts


@pytest.mark.parametrize("options", [{}, {"surrogate": "log_cosh"}, {"optimizer": "pgd"}])
def test_the_search_finds_the_batch(options):
    _, update, truth = Client("digits", 6, 0, width=200).observe()
    generator = torch.Generator().manual_seed(0)
    problem = first_layer(update, generator)
    found = learn(problem, DictionarySearch(problem, **options), generator, control())
    assert found.consistent
    assert compare(found.records, truth, structural=False).exact_batch


def test_a_search_without_time_finds_nothing():
    _, update, _ = Client("digits", 6, 0, width=100).observe()
    generator = torch.Generator().manual_seed(0)
    problem = first_layer(update, generator)
    stopped = control()
    stopped.interrupt()
    found = learn(problem, DictionarySearch(problem), generator, stopped)
    assert found.records is None
    assert (found.descents, found.consistent) == (0, False)


def test_what_was_not_run_is_said_beside_the_papers_number():
    lines = spearpp_table1.table([])
    assert len(lines) == 1 + len(spearpp_table1.PAPER)
    assert {line[5] for line in lines[1:]} == {"not run"}


def test_the_noise_is_that_of_the_mean_gradient(monkeypatch):
    seen = []
    monkeypatch.setattr(
        spearpp_table3,
        "audited",
        lambda unit, source, client, control: seen.append(client.observe()[1]) or [],
    )
    unit = {"variant": "sigma = 1e-4", "batch_size": 6, "width": 60, "seed": 0}
    spearpp_table3.run(unit, PATCHES, control())
    assert seen[0].noise == pytest.approx(1e-4)


def test_fits_tell_a_power_from_an_exponential():
    sizes = (10, 20, 40, 80)
    power = [(math.log(b), math.log(2.0 * b**1.5)) for b in sizes]
    slope, error = spearpp_growth.fit([(x, math.exp(y)) for x, y in power])
    assert slope == pytest.approx(1.5)
    assert error == pytest.approx(0.0, abs=1e-9)
    assert spearpp_growth.fit([(b, 2.0 * b**1.5) for b in sizes])[1] > 0.1
    assert spearpp_growth.fit([(1, 1.0), (2, 2.0)]) is None


def test_a_ladder_ends_at_the_first_batch_that_one_seed_does_not_recover():
    rows = [
        {"width": 40, "batch_size": b, "recovered": r}
        for b, r in [(5, 5), (7, 7), (9, 9), (12, 3), (5, 5), (7, 0)]
    ]
    assert limit.largest(rows) == {40: (5, 7)}
    assert limit.largest(rows[:2]) == {40: (7, None)}


def test_images_of_one_class_alone_are_shown():
    unit = {"batch_size": 20, "width": 200, "seed": 0}
    rows = spearpp_figure1.run(unit, Scale(data="digits"), control())
    found = [row for row in rows if row["image"] == "found"]
    assert 0 < len(found) == len(rows) / 2 < 20
    assert all(row["exact"] for row in found)
