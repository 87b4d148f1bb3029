from __future__ import annotations

import base64
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

from defending.material import make_curve, make_point, make_run, noise_curve

from gradaudit.defending import Setting, Training, answers
from gradaudit.evidence import Status
from gradaudit.report.defend import render_defense_curve, write_defense_curve
from gradaudit.report.defend_figures import bars_picture, find_series, series_pictures
from gradaudit.report.defend_table import guarantee_text, table, training_note
from gradaudit.report.defend_wording import NO_PROMISE, answer_text, outcomes_text
from gradaudit.report.figures import LIGHT
from report.pages import Page


def answer_of(curve):
    (answer,) = answers(curve)
    return answer_text(answer, curve)


def test_the_page_answers_first_and_promises_nothing(tmp_path):
    curve = noise_curve()
    page = Page(render_defense_curve(curve, title="Round <1>"))
    text = page.text
    assert "Round <1>" in text
    headline, grounds = answer_of(curve)
    assert headline.endswith("is dp-sgd:clip=1,noise_multiplier=1.")
    assert text.index(headline) < text.index(grounds) < text.index(NO_PROMISE)
    assert text.index(NO_PROMISE) < text.index("What each setting left")
    assert not page.all("script")
    write_defense_curve(curve, tmp_path / "page.html", title="Round <1>")
    written = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert written == render_defense_curve(curve, title="Round <1>")


def test_every_row_is_on_the_page():
    curve = noise_curve()
    page = Page(render_defense_curve(curve))
    assert len(page.all("tr")) == 1 + len(curve.points)
    for column in table(curve):
        assert column.title in page.text
        assert all(cell in page.text for cell in column.cells)


def test_hostile_names_are_text():
    curve = make_curve(make_point(runs=(make_run(4),)))
    setting = Setting(4, model="<script>alert(1)</script>\u202e")
    hostile = replace(
        curve, source="<b>x", points=(replace(curve.points[0], setting=setting),), notes=("<i>y",)
    )
    page = Page(render_defense_curve(hostile))
    assert not [tag for tag, _ in page.elements if tag in ("script", "b", "i")]
    assert "\u202e" not in page.text


def test_an_unfinished_curve_says_so():
    curve = replace(noise_curve(), complete=False)
    assert "Not complete" in render_defense_curve(curve)
    assert "Not complete" not in render_defense_curve(noise_curve())


def test_no_defence_was_enough():
    headline, _ = answer_of(
        make_curve(make_point(runs=(make_run(1),)), make_point("sign", runs=(make_run(0, 1),)))
    )
    assert headline == "This attack recovered records under each of the 2 settings tried."


def test_no_defence_was_needed_by_this_attack():
    headline, grounds = answer_of(make_curve(make_point()))
    assert headline == "This attack recovered nothing here, even without a defence."
    assert "nothing recovered" in grounds


def test_an_attack_that_never_ran_or_never_ended_is_no_defence():
    run = replace(make_run(), status=Status.NOT_APPLICABLE)
    curve = make_curve(make_point(runs=(make_run(4),)), make_point("sign", runs=(run,)))
    assert "does not take such updates" in answer_of(curve)[1]
    assert answer_of(curve)[0].endswith("is sign, as it takes no such updates.")
    tried = make_curve(make_point(runs=(make_run(4),)), make_point("sign", runs=(run, make_run())))
    assert "does not take such updates" not in answer_of(tried)[1]
    ended = replace(run, status=Status.BUDGET_EXHAUSTED)
    curve = make_curve(make_point(runs=(make_run(4),)), make_point("sign", runs=(run, ended)))
    assert "more time may recover" in answer_of(curve)[1]
    assert outcomes_text(tried.points[1]) == "1 x attack not applicable, 1 x nothing recovered"


def test_the_cost_is_named():
    dear = make_point("sign", runs=(make_run(distortion=0.5),), accuracy=0.875)
    assert "by the accuracy that is left, 87.5 \u00b1 3.3 %" in answer_of(make_curve(dear))[1]
    cheap = make_point("sign", runs=(make_run(distortion=0.5),))
    assert "by distortion: 0.5 of what is sent" in answer_of(make_curve(cheap))[1]


def test_the_table_leaves_out_what_all_points_share():
    titles = [column.title for column in table(noise_curve())]
    assert titles[:4] == ["Defence", "Outcome", "Certified", "Within 20 dB"]
    assert "Epsilon" in titles
    assert "Accuracy" not in titles
    columns = {column.title: column.cells for column in table(noise_curve())}
    assert columns["Certified"] == ("4 of 4", "4 of 4", "4 of 4", "1 of 4", "0 of 4")
    assert columns["Epsilon"][1] == "infinite"
    larger = replace(make_point("sign"), setting=Setting(8, width=60, defenses=("sign",)))
    two = {column.title: column.cells for column in table(make_curve(make_point("sign"), larger))}
    assert (two["Records"], two["Width"]) == (("4", "8"), ("30", "60"))


def test_what_figures_rest_on_is_said():
    assert "after 10 steps" in guarantee_text(noise_curve())
    assert training_note(noise_curve()) == ""
    trained = replace(noise_curve(), training=Training(rounds=7))
    assert "after 7 rounds" in training_note(trained)


def test_a_bar_for_each_point():
    picture = bars_picture(noise_curve())
    assert picture.alternative == "5 settings; under 1 of them nothing was recovered."
    svg = base64.b64decode(picture.light.partition(",")[2]).decode()
    ElementTree.fromstring(svg)
    assert svg.count(f"fill: {LIGHT.strong}") == svg.count(f"fill: {LIGHT.faint}") == 5
    assert bars_picture(make_curve(replace(make_point(), runs=()))) is None


def test_a_curve_along_the_noise():
    (series,) = find_series(noise_curve())
    assert series.name == "noise_multiplier of dp-sgd"
    assert [value for value, _ in series.points] == [0.0, 1e-6, 1e-4, 1.0]
    ((_, picture),) = series_pictures(noise_curve())
    assert "1: 0%" in picture.alternative
    ElementTree.fromstring(base64.b64decode(picture.light.partition(",")[2]))


def test_points_that_differ_in_two_numbers_make_no_curve():
    points = [
        replace(make_point(), setting=Setting(size, width=width))
        for size, width in ((2, 10), (4, 20), (8, 30))
    ]
    assert find_series(make_curve(*points)) == ()
    along = [replace(make_point(), setting=Setting(size, width=9)) for size in (2, 4, 8)]
    (series,) = find_series(make_curve(*along))
    assert (series.name, [value for value, _ in series.points]) == ("batch size", [2, 4, 8])
