from __future__ import annotations

import json
from dataclasses import replace

import pytest

from defending.material import make_curve, make_point, make_run, noise_curve
from gradaudit.defending import answers
from gradaudit.defending.training import Trained


def test_a_point_counts_over_its_runs():
    point = make_point("sign", runs=(make_run(1, 2), make_run(0, 1, seed=1)))
    assert (point.records, point.certified, point.close) == (8, 1, 4)
    assert not point.nothing_recovered
    # Of one certified record and three that are close.
    assert point.true_error == pytest.approx(0.3)
    assert point.estimated_error == pytest.approx(0.2)
    assert point.psnr == pytest.approx(25.0)
    assert point.statuses == {"partial": 1, "not_recovered": 1}


def test_an_estimate_that_is_close_is_not_nothing():
    assert not make_point(runs=(make_run(0, 1),)).nothing_recovered
    assert make_point(runs=(make_run(),)).nothing_recovered


def test_the_json_holds_numbers_alone():
    value = json.loads(json.dumps(noise_curve().to_json(), allow_nan=False))
    assert value["schema"] == "gradaudit.defense_curve"
    shares = [(p["defense"], p["certified"], p["records"]) for p in value["points"]]
    assert shares[0] == ("none", 4, 4)
    assert shares[-1] == ("dp-sgd:clip=1,noise_multiplier=1", 0, 4)
    assert value["points"][1]["privacy"]["epsilon"] is None
    assert value["points"][2]["runs"][0]["status"] == "recovered"


def test_the_cheapest_changes_least():
    quiet = make_point("sign", runs=(make_run(distortion=0.4),))
    loud = make_point("mask:share=0.5", runs=(make_run(distortion=0.7),))
    leaks = make_point(runs=(make_run(4),))
    (answer,) = answers(make_curve(leaks, loud, quiet))
    assert (answer.cheapest, answer.by, answer.tried) == (quiet, "distortion", 3)
    (answer,) = answers(make_curve(leaks))
    assert answer.cheapest is None


def test_accuracy_decides_where_all_that_are_compared_have_one():
    points = [
        make_point("sign", runs=(make_run(distortion=0.4),), accuracy=0.5),
        make_point("mask:share=0.5", runs=(make_run(distortion=0.7),), accuracy=0.8),
    ]
    (answer,) = answers(make_curve(*points))
    assert (answer.cheapest, answer.by) == (points[1], "accuracy")
    # Of a hundred records each, half a standard error apart.
    alike = [replace(points[0], trained=Trained(0.77, 100)), points[1]]
    (answer,) = answers(make_curve(*alike))
    assert (answer.cheapest, answer.by) == (alike[0], "accuracy")
    unknown = make_point("mask:share=0.9", runs=(make_run(distortion=0.9),))
    (answer,) = answers(make_curve(*points, unknown))
    assert (answer.cheapest, answer.by) == (points[0], "distortion")
