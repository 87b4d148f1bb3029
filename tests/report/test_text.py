from __future__ import annotations

import math
import unicodedata

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gradaudit.report.text import count, duration, number, plain


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1284096, "1,284,096"),
        (2e9, "2,000,000,000"),
        (0.5, "0.5"),
        (-0.125, "-0.125"),
        (0.0012345, "0.00123"),
        (0.00012345, "1.23 \u00d7 10⁻⁴"),
        (1234.5678, "1,235"),
        (38.99999999, "39"),
        (1e15, "1.00 \u00d7 10¹⁵"),
        (-1e-300, "-1.00 \u00d7 10⁻³⁰⁰"),
        (math.inf, "not finite"),
        (math.nan, "not finite"),
        (None, "unknown"),
    ],
)
def test_number(value, text):
    assert number(value) == text


@given(st.floats(-1e300, 1e300), st.integers(2, 8))
def test_number_is_right_to_its_digits(value, digits):
    text = number(value, digits).replace(",", "")
    mantissa, _, power = text.partition(" \u00d7 10")
    exponent = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or "0"
    assert float(f"{mantissa}e{exponent}") == pytest.approx(value, rel=10.0 ** (1 - digits))


@given(st.integers(0, 10**7))
def test_duration_adds_up(seconds):
    units = {"h": 3600, "min": 60, "s": 1}
    parts = duration(seconds).replace(",", "").split()
    total = sum(int(n) * units[u] for n, u in zip(parts[::2], parts[1::2], strict=True))
    assert 0 <= seconds - total < (60 if seconds >= 3600 else 1)


def test_duration_of_nothing_known():
    assert duration(math.inf) == "unknown"


def test_count():
    assert count(2, "copy", "copies") == "2 copies"


@given(st.text(max_size=300))
def test_plain_hides_nothing_and_reorders_nothing(text):
    shown = plain(text, 100)
    assert all(
        unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp")
        and (c == "\u200d" or unicodedata.category(c) != "Cf")
        for c in shown
    )
    shown.encode("utf-8")
    assert len(shown) <= 100 * 10 + 30


def test_plain_states_the_length_and_keeps_what_is_harmless():
    assert plain("x" * 10_000, 5) == "xxxxx… (10,000 characters)"
    assert plain("Größe 日本 👩‍⚕️ שלום") == "Größe 日本 👩‍⚕️ שלום"
    assert plain("a" + "\u0301" * 50).count("\u0301") <= 2
    assert plain("a\u200bb\ud800\x00") == "a\\u200bb\\ud800\\x00"
