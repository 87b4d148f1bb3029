from __future__ import annotations

import base64
import xml.etree.ElementTree as ElementTree

import pytest

import gradaudit as ga
from gradaudit.errors import InputError
from gradaudit.models import cnn6_d, lenet, mlp
from gradaudit.report.figures import DARK, LIGHT
from gradaudit.report.ranks import rank_picture, write_rank_figure

ANALYSIS = ga.rank_analysis(cnn6_d(), (3, 32, 32))


def svg_of(uri: str) -> str:
    return base64.b64decode(uri.removeprefix("data:image/svg+xml;base64,")).decode("utf-8")


def test_the_picture_has_a_bar_for_what_is_determined_and_one_for_what_is_open():
    picture = rank_picture(ANALYSIS)
    assert "conv2 leaves 280 of 3,468 dimensions" in picture.alternative
    for uri, palette in ((picture.light, LIGHT), (picture.dark, DARK)):
        text = svg_of(uri)
        ElementTree.fromstring(text)
        assert text.count(f"fill: {palette.strong}") == len(ANALYSIS.layers)
        assert text.count(f"fill: {palette.faint}") == len(ANALYSIS.layers)
    assert rank_picture(ANALYSIS) == picture


def test_a_network_without_deficits_says_so():
    picture = rank_picture(ga.rank_analysis(lenet(), (1, 28, 28)))
    assert picture.alternative == "Equations of 4 layers: all determine their layer's input."


def test_names_of_a_hostile_network_are_shown_as_they_are(tmp_path):
    network = mlp(4, [3], 2)
    network.add_module("a\x1b$\\frac{1}{0}$" + "b" * 100, network.fc2)
    write_rank_figure(ga.rank_analysis(network[:3], (4,)), tmp_path / "names.svg")
    assert "\x1b" not in (tmp_path / "names.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["ranks", "ranks.jpg", "ranks.svg.gz"])
def test_other_endings_are_refused(name, tmp_path):
    with pytest.raises(InputError, match="figure"):
        write_rank_figure(ANALYSIS, tmp_path / name)
    assert not list(tmp_path.iterdir())
