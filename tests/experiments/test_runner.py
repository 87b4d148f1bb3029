"""Running, resuming and refusing, on a made-up experiment that counts its runs."""

from __future__ import annotations

import csv
import json
from types import SimpleNamespace

import pytest

from gradaudit.budget import Control
from gradaudit.engine import InProcess, Processes
from gradaudit.errors import InputError
from gradaudit.experiments import NAMES, Scale, load, run_experiment


@pytest.fixture
def counting():
    ran = []

    def run(unit, scale, control):
        ran.append(unit["n"])
        control.report("at work")
        return [{**unit, "square": unit["n"] ** 2, "data": "patches?size=64", "none": None}]

    return SimpleNamespace(
        NAME="squares",
        TITLE="Squares",
        SOURCE="Nobody, Table 1",
        DIFFERS="Nothing | at all.",
        ran=ran,
        units=lambda scale: [{"n": n} for n in scale.batches(3, 4, 5)],
        run=run,
        table=lambda rows: [("n", "square"), *((str(r["n"]), f"|{r['square']}") for r in rows)],
        draw=lambda rows, figure: figure.subplots().plot([row["square"] for row in rows]),
    )


def test_rows_table_and_figure_are_written(counting, tmp_path):
    ran = run_experiment(counting, Scale("quick", seed=5), tmp_path)
    assert (ran.units, ran.done) == (3, 3)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".json", ".md", ".png"]
    rows = list(csv.DictReader((tmp_path / "squares.csv").read_text().splitlines()))
    assert [row["square"] for row in rows] == ["25", "36", "49"]
    text = ran.page.read_text()
    assert "| 5 | \\|25 |" in text
    assert "patches?size=64` stood in" in text
    assert "Incomplete" not in text


def test_what_is_there_is_not_run_again(counting, tmp_path):
    run_experiment(counting, Scale("quick"), tmp_path)
    stored = json.loads((tmp_path / "squares.json").read_text())
    stored["units"].pop(1)
    (tmp_path / "squares.json").write_text(json.dumps(stored))
    run_experiment(counting, Scale("quick"), tmp_path)
    assert counting.ran == [0, 1, 2, 1]
    run_experiment(counting, Scale("quick"), tmp_path, again=True)
    assert counting.ran[4:] == [0, 1, 2]


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": 3},
        {"rows": [3]},
        {"environment": []},
        {"seconds": "1"},
        {"seconds": 10**400},
        {"unit": 3},
    ],
)
def test_rows_of_other_types_are_named(counting, tmp_path, changed):
    run_experiment(counting, Scale("quick"), tmp_path)
    stored = json.loads((tmp_path / "squares.json").read_text())
    stored["units"][0] |= changed
    (tmp_path / "squares.json").write_text(json.dumps(stored))
    with pytest.raises(InputError, match=r"squares\.json"):
        run_experiment(counting, Scale("quick"), tmp_path)


def test_an_interrupted_unit_is_not_kept(counting, tmp_path):
    control = Control()

    def listen(progress):
        if "1 of 3 done: at work" in progress.phase:
            control.interrupt()

    control.listener = listen
    ran = run_experiment(counting, Scale("quick"), tmp_path, control=control)
    assert (ran.units, ran.done) == (3, 1)
    assert "**Incomplete: 1 of 3 units were run.**" in ran.page.read_text()
    assert run_experiment(counting, Scale("quick"), tmp_path).done == 3
    assert counting.ran == [0, 1, 1, 2]


def test_time_left_is_told_from_the_second_unit_on(counting, tmp_path):
    told = []
    run_experiment(counting, Scale("quick"), tmp_path, control=Control(listener=told.append))
    assert told[0].seconds_left is None
    assert told[-1].seconds_left is not None


class Backwards(InProcess):
    """As an engine with many workers may do it."""

    def run(self, units, control):
        return super().run(units[::-1], control)


def test_rows_are_in_the_order_of_units_whatever_the_engine_s(counting, tmp_path):
    run_experiment(counting, Scale("quick"), tmp_path / "forwards")
    run_experiment(counting, Scale("quick"), tmp_path / "backwards", engine=Backwards())
    assert counting.ran == [0, 1, 2, 2, 1, 0]
    texts = [(tmp_path / name / "squares.csv").read_text() for name in ("forwards", "backwards")]
    assert texts[0] == texts[1]


def test_a_unit_that_fails_is_told_and_run_again_the_next_time(counting, tmp_path):
    works, broken = counting.run, {1}

    def run(unit, scale, control):
        if unit["n"] in broken:
            raise InputError("n", "1", "another")
        return works(unit, scale, control)

    counting.run = run
    ran = run_experiment(counting, Scale("quick"), tmp_path)
    assert (ran.units, ran.done) == (3, 2)
    assert dict(ran.failed) == {'{"n": 1}': "n: found 1, expected another"}
    broken.clear()
    assert run_experiment(counting, Scale("quick"), tmp_path).done == 3
    assert counting.ran == [0, 2, 1]
    rows = list(csv.DictReader((tmp_path / "squares.csv").read_text().splitlines()))
    assert [row["square"] for row in rows] == ["0", "1", "4"]


def test_worker_processes_give_the_same_rows(tmp_path):
    experiment, scale = load("spear-figure3"), Scale("quick", seeds=1)
    run_experiment(experiment, scale, tmp_path / "here", figures=False)
    with Processes(workers=2) as engine:
        ran = run_experiment(experiment, scale, tmp_path / "there", figures=False, engine=engine)
    assert ran.done == ran.units > 1
    texts = [(tmp_path / name / "spear-figure3.csv").read_text() for name in ("here", "there")]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("other", [Scale("full"), Scale("quick", seed=1), Scale("quick", data="x")])
def test_rows_of_other_settings_are_refused(counting, tmp_path, other):
    run_experiment(counting, Scale("quick"), tmp_path)
    with pytest.raises(InputError, match="--again to start anew"):
        run_experiment(counting, other, tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"gradaudit": 1, "settings": 2, "units": [3]}'])
def test_a_file_that_is_none_of_ours_is_refused(counting, tmp_path, text):
    (tmp_path / "squares.json").write_text(text)
    with pytest.raises(InputError, match="expected"):
        run_experiment(counting, Scale("quick"), tmp_path)
    assert (tmp_path / "squares.json").read_text() == text


def test_every_name_is_that_of_its_experiment():
    assert [load(name).NAME for name in NAMES] == list(NAMES)
    with pytest.raises(InputError, match="one of spear-table1"):
        load("spear")
