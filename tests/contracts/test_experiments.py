"""What holds for every experiment that is registered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gradaudit.budget import Control
from gradaudit.experiments import NAMES, SCALES, Scale, load

RESULTS = Path(__file__).parents[2] / "docs" / "results"
# What is quick enough to be run here, twice: the first unit with these values.
SMALL = {
    "spear-table1": {"dataset": "MNIST", "attack": "auto"},
    "spear-figure3": {},
    "spear-figure4": {"batch_size": 4, "width": 200},
    "spear-figure6": {"batch_size": 8},
    "spear-figure8": {"gradient": "coin tosses", "batch_size": 4},
    "spearpp-table2": {"batch_size": 20},
    "rgap-rank": {"network": "LeNet"},
}
# Of a run with --quick, on two cores.
MOST_SECONDS = 180


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


@pytest.mark.parametrize("name", SMALL)
def test_the_same_seed_gives_the_same_rows(name):
    experiment, scale = load(name), Scale("quick", data="digits")
    units = experiment.units(scale)
    unit = next(unit for unit in units if SMALL[name].items() <= unit.items())
    first, second = (experiment.run(unit, scale, Control()) for _ in range(2))
    assert all(unit.items() <= row.items() for row in first)
    assert [_timeless(row) for row in first] == [_timeless(row) for row in second]


def _timeless(row):
    return {column: value for column, value in row.items() if "second" not in column}


@pytest.mark.parametrize("name", NAMES)
def test_its_committed_page_is_whole_and_was_quick(name):
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    assert (RESULTS / f"{name}.png").stat().st_size > 0
    assert "**Incomplete" not in text
    known = load(name)
    assert text.startswith(f"# {known.TITLE}\n\n{known.SOURCE}.\n\n{known.DIFFERS}\n")
    assert "scale `quick`" in text
    took = re.search(r"Took (?:(\d+) min )?(\d+) s in all", text)
    assert took, text
    assert 60 * int(took[1] or 0) + int(took[2]) <= MOST_SECONDS


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.json")), ids=lambda file: file.stem)
def test_committed_rows_are_those_of_all_units_and_of_the_page(file):
    stored = json.loads(file.read_text(encoding="utf-8"))
    experiment, scale = load(file.stem), Scale(**stored["settings"])
    assert [entry["unit"] for entry in stored["units"]] == experiment.units(scale)
    assert sum(entry["seconds"] for entry in stored["units"]) <= MOST_SECONDS
    rows = [row for entry in stored["units"] for row in entry["rows"]]
    page = file.with_suffix(".md").read_text(encoding="utf-8")
    for line in experiment.table(rows):
        assert "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" in page
