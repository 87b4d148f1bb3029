"""What holds for every experiment that is registered."""

from __future__ import annotations

import json

import pytest

from gradaudit.budget import Control
from gradaudit.experiments import NAMES, SCALES, Scale, load

# What is deterministic and quick enough to be run here, twice.
SMALL = ("spear-figure3", "rgap-rank")


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is(name):
    experiment = load(name)
    assert name == experiment.NAME
    assert experiment.TITLE
    assert not experiment.TITLE.endswith(".")
    assert experiment.SOURCE
    assert experiment.DIFFERS.strip().endswith((".", ")"))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_its_units_are_there_once_and_can_be_written(name, scale):
    units = load(name).units(Scale(scale))
    assert units
    keys = [json.dumps(unit, sort_keys=True) for unit in units]
    assert len(set(keys)) == len(keys)
    assert len({frozenset(unit) for unit in units}) == 1


@pytest.mark.parametrize("name", [name for name in NAMES if name in SMALL])
def test_the_same_seed_gives_the_same_rows(name):
    experiment, scale = load(name), Scale("quick")
    unit = experiment.units(scale)[0]
    rows = [experiment.run(unit, scale, Control()) for _ in range(2)]
    assert rows[0] == rows[1]
    assert all(unit.items() <= row.items() for row in rows[0])
