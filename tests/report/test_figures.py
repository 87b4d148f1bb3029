from __future__ import annotations

import base64
import dataclasses
import re
import sys
import xml.etree.ElementTree as ElementTree
from importlib import resources

import numpy as np
import pytest

from gradaudit.errors import MissingExtraError
from gradaudit.report import figures
from gradaudit.report.figures import DARK, LIGHT, sparsity_picture, spectrum_picture
from report.material import activation_gradients, spectrum


def svg_of(uri: str) -> str:
    return base64.b64decode(uri.removeprefix("data:image/svg+xml;base64,")).decode("utf-8")


def relative_luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(a: str, b: str) -> float:
    low, high = sorted((relative_luminance(a), relative_luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_pictures_are_legible_on_their_page(palette):
    assert contrast(palette.ink, palette.paper) > 7
    assert contrast(palette.strong, palette.paper) > 4.5
    assert contrast(palette.strong, palette.faint) > 3


def test_text_of_the_page_is_legible_in_both_colour_schemes():
    style = resources.files("gradaudit.report").joinpath("templates/style.css").read_text("utf-8")
    light, dark = (
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    )
    for scheme, palette in ((light, LIGHT), (dark, DARK)):
        assert scheme["paper"] == palette.paper
        for text in ("ink", "soft", "link", "leak", "partial", "open"):
            for ground in ("page", "paper", "wash"):
                assert contrast(scheme[text], scheme[ground]) > 4.5, (text, ground)


@pytest.mark.parametrize(
    "picture", [spectrum_picture(spectrum(16)), sparsity_picture(activation_gradients(16).numpy())]
)
def test_pictures_are_svg_without_script_or_links(picture):
    for uri, palette in ((picture.light, LIGHT), (picture.dark, DARK)):
        text = svg_of(uri)
        tree = ElementTree.fromstring(text)
        tags = {node.tag.rpartition("}")[2] for node in tree.iter()}
        assert "path" in tags
        assert not tags & {"script", "foreignObject", "a"}
        assert palette.ink in text
        for node in tree.iter():
            for name, value in node.attrib.items():
                if name.endswith("href"):
                    assert value.startswith(("#", "data:image/png;base64,"))
    assert picture.light != picture.dark
    assert picture.alternative.endswith(".")


def test_pictures_repeat_byte_for_byte():
    assert spectrum_picture(spectrum(16)) == spectrum_picture(spectrum(16))


def test_no_pyplot_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert spectrum_picture(spectrum(3)) is not None


def test_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"gradaudit\[report\]"):
        spectrum_picture(spectrum(3))


@pytest.mark.parametrize(
    "changes",
    [
        {"singular_values": (1.0, 0.0, 0.0)},
        {"singular_values": (1.0,), "numerical_rank": 1, "threshold": 0.0},
        {"singular_values": (float("inf"), 1.0, float("nan"), -1.0)},
        {"singular_values": (1e300, 1e-300), "numerical_rank": 2},
        {"threshold": float("inf"), "numerical_rank": 0},
        {"singular_values": (1.0, 0.5), "numerical_rank": 700},
        {"singular_values": tuple(np.logspace(0, -12, 4096)), "numerical_rank": 2000},
    ],
)
def test_odd_spectra_are_drawn(changes):
    picture = spectrum_picture(dataclasses.replace(spectrum(2), **changes))
    assert picture is not None
    assert len(picture.light) < 2_000_000


@pytest.mark.parametrize("values", [(), (0.0, 0.0), (float("nan"),)])
def test_nothing_positive_is_not_drawn(values):
    assert spectrum_picture(dataclasses.replace(spectrum(2), singular_values=values)) is None


def test_long_spectra_say_what_is_left_out():
    picture = spectrum_picture(spectrum(16, extra=500))
    assert picture.alternative.endswith(
        "16 above the threshold of 2.00 \u00d7 10⁻⁷, 500 below. The first 56 are drawn."
    )


def test_sorting_puts_equal_patterns_together_and_keeps_them_all():
    pattern = np.random.default_rng(0).random((4, 60)) < 0.5
    ordered = figures._sorted_pattern(pattern)
    counts = ordered.sum(axis=1)
    assert (np.diff(counts) <= 0).all()
    columns = [tuple(column) for column in ordered.T]
    assert columns == sorted(columns, reverse=True)
    assert sorted(pattern.sum(axis=1)) == sorted(counts)


def test_coarsening_keeps_the_share(monkeypatch):
    monkeypatch.setattr(figures, "MAX_CELLS", 10)
    pattern = np.random.default_rng(0).random((7, 40)) < 0.3
    shares = figures._coarser(pattern)
    assert shares.shape == (7, 10)
    assert shares.mean() == pytest.approx(pattern.mean())


def test_rounding_counts_as_zero_and_odd_input_is_drawn():
    gradients = np.array([[1.0, 1e-12], [1e-5, 2.0]])
    assert "75 %" in sparsity_picture(gradients).alternative
    assert "50 %" in sparsity_picture(gradients, 1e-4).alternative
    assert sparsity_picture(np.array([[np.nan], [1.0]])) is not None
    assert "0 %" in sparsity_picture(np.zeros((3, 1))).alternative
    assert sparsity_picture(np.zeros((3, 0))) is None
    assert sparsity_picture(np.eye(700)).alternative.startswith("Pattern of 700 records")
