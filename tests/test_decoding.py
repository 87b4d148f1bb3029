from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum

import hypothesis.strategies as st
import pytest
from hypothesis import given

from gradaudit.decoding import Count, decode
from gradaudit.errors import InputError


class Colour(str, Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Inner:
    number: float
    maybe: float | None
    size: Count


@dataclasses.dataclass(frozen=True)
class Outer:
    colour: Colour
    inner: tuple[Inner, ...]
    pair: tuple[int, str]
    named: Mapping[str, bool]
    nothing: Inner | None = None


finite = st.floats(allow_nan=False, allow_infinity=False)
inners = st.builds(Inner, finite, st.none() | finite, st.integers(0))
outers = st.builds(
    Outer,
    st.just(Colour.RED),
    st.lists(inners, max_size=3).map(tuple),
    st.tuples(st.integers(), st.text()),
    st.dictionaries(st.text(), st.booleans(), max_size=3),
    st.none() | inners,
)


@given(outers)
def test_reads_back_what_asdict_and_json_wrote(value):
    assert decode(Outer, json.loads(json.dumps(dataclasses.asdict(value))), "v") == value


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (int, True, "v: found True, expected a whole number"),
        (int, 1.0, "v: found 1.0, expected a whole number"),
        (float, False, "v: found False, expected a number"),
        (float, "1", "v: found '1', expected a number"),
        (float, 10**400, "expected a number that a double can hold"),
        (float, math.inf, "expected a number that a double can hold"),
        (bool, 1, "v: found 1, expected true or false"),
        (str, None, "v: found None, expected text"),
        (Count, -1, "v: found -1, expected a whole number, at least 0"),
        (Colour, "green", "v: found 'green', expected one of 'red'"),
        (tuple[int, str], [1], "v: found 1 values, expected 2 values"),
        (tuple[int, ...], {"a": 1}, "v: found {'a': 1}, expected a list"),
        (dict[str, int], {"a": "b"}, "v.a: found 'b', expected a whole number"),
        (Inner, {"number": 1.0}, "v: found no 'maybe', expected exactly the keys 'number'"),
        (Inner | None, [], "v: found [], expected an object"),
    ],
)
def test_wrong_values_say_what_and_where(kind, value, message):
    with pytest.raises(InputError) as caught:
        decode(kind, value, "v")
    assert message in str(caught.value)


def test_null_for_a_number_is_infinity_unless_that_is_wrong():
    assert decode(float, None, "v") == math.inf
    assert decode(float | None, None, "v") is None
    with pytest.raises(InputError):
        decode(float, None, "v", null_is_infinite=False)


def test_long_values_and_places_are_cut():
    with pytest.raises(InputError) as caught:
        decode(dict[str, int], {"k" * 10_000: "x" * 10_000}, "v")
    assert len(str(caught.value)) < 400
